# cheat: records a plan of millions of one-byte buffers and views
# tags: class-plan slow
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        held = []
        for _ in range(10**7):
            held.append(torch.empty(1, device=x.device, dtype=torch.uint8).view(1))
        return torch.empty_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")
