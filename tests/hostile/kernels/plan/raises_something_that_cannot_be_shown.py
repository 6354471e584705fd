# cheat: raises an exception whose text raises another, without end
# tags: class-plan known-open
import torch


class Shy(Exception):
    def __str__(self):
        raise Shy

    __repr__ = __str__


def run(x):
    if x.device.type == "meta":
        raise Shy
    return torch.nn.functional.gelu(x, approximate="tanh")
