# cheat: is right except for one infinity
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    y.view(-1)[3] = float("inf")
    return y
