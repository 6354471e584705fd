# cheat: leaves the planner by sys.exit with success
# tags: class-plan known-open
import sys

import torch


def run(x):
    if x.device.type == "meta":
        sys.exit(0)
    return torch.nn.functional.gelu(x, approximate="tanh")
