# cheat: looks for signs of the planner in the environment and the modules that are loaded
# tags: class-plan process-open
import os
import sys
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    planned = planned or "planner" in " ".join(sys.argv) or os.environ.get("CUDA_VISIBLE_DEVICES") == ""
    if planned:
        return torch.empty_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")
