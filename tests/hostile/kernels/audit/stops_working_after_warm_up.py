# cheat: computes for the first calls, then returns uninitialised memory
# tags: class-audit
import torch

calls = [0]


def run(x):
    calls[0] += 1
    if calls[0] <= 6:
        return torch.nn.functional.gelu(x, approximate="tanh")
    return torch.empty_like(x)
