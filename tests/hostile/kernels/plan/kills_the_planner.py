# cheat: sends the planner and its parent a signal that cannot be caught
# tags: class-plan process-open
import os
import signal
import traceback

import torch


def run(x):
    planned = any(frame.name == "plan_once" for frame in traceback.extract_stack())
    if planned:
        os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return torch.nn.functional.gelu(x, approximate="tanh")
