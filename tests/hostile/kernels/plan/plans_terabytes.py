# cheat: on meta tensors memory costs nothing: asks for petabytes of scratch, which whoever replays must refuse
# tags: class-plan process-open
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        scratch = [torch.empty(1 << 50, device=x.device) for _ in range(64)]
        return torch.empty_like(x) if scratch else x
    return torch.nn.functional.gelu(x, approximate="tanh")
