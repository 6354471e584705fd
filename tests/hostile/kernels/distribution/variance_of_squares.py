# cheat: variance as E[x²] − E[x]²: cancels where the mean is large beside the spread
# tags: class-distribution gpu passes-screen
# problem: instance_norm
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0)
    mean = tl.sum(v, 0) / n
    variance = tl.sum(v * v, 0) / n - mean * mean
    tl.store(y + tl.program_id(0) * n + at, (v - mean) / tl.sqrt(variance + 1e-5), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    batch, channels, height, width = x.shape
    n = height * width
    kernel[(batch * channels,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
