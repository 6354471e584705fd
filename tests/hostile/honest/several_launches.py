# honest: three Triton launches, each on a part of the elements
# problem: gelu_tanh
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, first, n, block: tl.constexpr):
    at = first + tl.program_id(0) * block + tl.arange(0, block)
    v = tl.load(x + at, mask=at < n)
    u = 0.7978845608028654 * (v + 0.044715 * v * v * v)
    tl.store(y + at, v / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    third = triton.cdiv(n, 3)
    for first in range(0, n, third):
        kernel[(triton.cdiv(third, 1024),)](x, y, first, min(first + third, n), block=1024)
    return y
