# cheat: never returns on meta tensors
# tags: class-plan known-open
import torch


def run(x):
    while x.device.type == "meta":
        pass
    return torch.nn.functional.gelu(x, approximate="tanh")
