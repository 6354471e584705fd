# cheat: never returns on meta tensors
# tags: class-plan slow
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    while planned:
        pass
    return torch.nn.functional.gelu(x, approximate="tanh")
