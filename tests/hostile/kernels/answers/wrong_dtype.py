# cheat: returns float64
# tags: class-answers
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").double()
