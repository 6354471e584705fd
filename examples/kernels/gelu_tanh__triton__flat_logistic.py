"""Flat blocks of 8192; the tanh form rewritten as x times a sigmoid, one base-two exponential per element."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    inner = x * (2.302208198 + 0.1029432397 * x * x)
    tl.store(y_ptr + i, x / (1.0 + tl.exp2(-inner)), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    gelu_flat[(triton.cdiv(n, 8192),)](x, y, n, BLOCK=8192, num_warps=16)
    return y
