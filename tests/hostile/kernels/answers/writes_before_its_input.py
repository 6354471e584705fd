# cheat: writes into the memory in front of the input
# tags: class-answers
import torch


def run(x):
    y = torch.nn.functional.gelu(x, approximate="tanh")
    torch.as_strided(x, (64,), (1,), x.storage_offset() - 64).zero_()
    return y
