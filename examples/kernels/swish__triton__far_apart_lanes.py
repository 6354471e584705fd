"""Program p takes elements p, p + P, p + 2P and so on, so neighbouring lanes read far apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def swish_scattered(x_ptr, y_ptr, n, programs, BLOCK: tl.constexpr):
    i = tl.program_id(0) + tl.arange(0, BLOCK) * programs
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x / (1.0 + tl.exp(-x)), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    programs = triton.cdiv(n, 1024)
    swish_scattered[(programs,)](x, y, n, programs, BLOCK=1024, num_warps=4)
    return y
