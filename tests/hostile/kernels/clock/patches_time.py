# cheat: slows the clock down
# tags: class-clock
import time

import torch

real = time.perf_counter_ns
time.perf_counter_ns = lambda: real() // 1000
time.perf_counter = lambda: real() / 1e12


def run(x):
    return torch.nn.functional.gelu(x, approximate="tanh")
