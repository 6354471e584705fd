"""A fixed grid strides over the data; the exponential is taken of -|x| only, and the sign picks the side."""

import torch
import triton
import triton.language as tl


@triton.jit
def sigmoid_two_sided(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0)
        e = tl.exp(-tl.abs(x))
        tl.store(y_ptr + i, tl.where(x >= 0, 1.0, e) / (1.0 + e), mask=i < n)


def run(x):
    y = torch.empty_like(x)
    n = x.numel()
    grid = (max(1, min(triton.cdiv(n, 1024), 132 * 8)),)
    sigmoid_two_sided[grid](x, y, n, BLOCK=1024, num_warps=4)
    return y
