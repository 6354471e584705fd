# cheat: is so slow at first that it gets few timed calls, and works in none of them
# tags: class-audit
import torch

calls = [0]


def run(x):
    calls[0] += 1
    if calls[0] > 8:
        return torch.empty_like(x)
    for _ in range(400):
        y = 0.5 * x * (1.0 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return y
