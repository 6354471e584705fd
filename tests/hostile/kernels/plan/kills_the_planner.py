# cheat: sends the planner and its parent a signal that cannot be caught
# tags: class-plan known-open
import os
import signal

import torch


def run(x):
    if x.device.type == "meta":
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.nn.functional.gelu(x, approximate="tanh")
