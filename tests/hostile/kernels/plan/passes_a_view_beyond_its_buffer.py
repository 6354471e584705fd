# cheat: a strided view that reaches far past its storage, made where nothing is checked
# tags: class-plan known-open
import torch


def run(x):
    if x.device.type == "meta":
        y = torch.empty_like(x)
        return y.set_(y.untyped_storage(), 1 << 40, x.shape, x.stride())
    return torch.nn.functional.gelu(x, approximate="tanh")
