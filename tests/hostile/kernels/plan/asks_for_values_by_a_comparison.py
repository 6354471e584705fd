# cheat: a tensor in a condition is a value read
# tags: class-plan truthful
import torch


def run(x):
    if (x.view(-1)[:1] > 1e9).all():
        return torch.zeros_like(x)
    return torch.nn.functional.gelu(x, approximate="tanh")
