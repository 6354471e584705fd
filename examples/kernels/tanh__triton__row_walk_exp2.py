"""A program per row walks along it in steps, with a base-two exponential of the magnitude and the sign put back."""

import torch
import triton
import triton.language as tl


@triton.jit
def tanh_row(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    base = tl.program_id(0).to(tl.int64) * cols
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + c, mask=c < cols, other=0.0)
        e = tl.exp2(-2.8853900817779268 * tl.abs(x))
        t = (1.0 - e) / (1.0 + e)
        tl.store(y_ptr + base + c, tl.where(x < 0, -t, t), mask=c < cols)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    tanh_row[(rows,)](x, y, cols, BLOCK=1024, num_warps=4)
    return y
