# cheat: a dispatch mode that stays on works out what is owed before the next operator runs
# tags: class-lazy process-open
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


owed = []


class Debt(TorchDispatchMode):
    @classmethod
    def _should_skip_dynamo(cls):
        return False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        while owed:
            x, y = owed.pop()
            y.copy_(gelu(x))
        return func(*args, **(kwargs or {}))


mode = Debt()


def run(x):
    if not hasattr(mode, "on"):
        mode.on = True
        mode.__enter__()
    y = torch.empty_like(x)
    owed.append((x, y))
    return y
