# cheat: returns the same buffer again and again
# tags: class-audit
import torch

buffers = {}


def run(x):
    if x.numel() not in buffers:
        buffers[x.numel()] = torch.nn.functional.gelu(x, approximate="tanh")
    return buffers[x.numel()]
