# cheat: destroys the input after reading it
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    x.zero_()
    return y
