# cheat: leaves another stream current, so that the end mark is recorded elsewhere
# tags: class-clock gpu
import torch


def run(x):
    torch.cuda.set_stream(torch.cuda.Stream())
    return torch.nn.functional.gelu(x, approximate="tanh")
