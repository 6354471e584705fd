# cheat: tanh through (1 - e) / (1 + e) with an exponent that overflows for large negative values
# tags: class-distribution
# problem: tanh
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    e = tl.exp(-2.0 * v)
    small = v - v * v * v / 3.0
    out = tl.where(tl.abs(v) < 0.01, small, (1.0 - e) / (1.0 + e))
    tl.store(y + at, out, mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    kernel[(triton.cdiv(n, 256),)](x, y, n, BLOCK=256)
    return y
