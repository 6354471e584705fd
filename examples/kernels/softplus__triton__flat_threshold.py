"""Flat blocks with the definition as written and the threshold as a select."""

import torch
import triton
import triton.language as tl


@triton.jit
def softplus_flat(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.where(x > 20.0, x, tl.log(1.0 + tl.exp(x))), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    softplus_flat[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024, num_warps=4)
    return y
