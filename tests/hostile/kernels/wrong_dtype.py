# cheat: returns float64
import torch


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh").double()
