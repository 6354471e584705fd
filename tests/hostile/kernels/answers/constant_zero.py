# cheat: returns zeros
# tags: class-answers
import torch


def run(x):
    return torch.zeros_like(x)
