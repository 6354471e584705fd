"""A program loads its entire row into registers at once and writes it back."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_row(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * cols + tl.arange(0, BLOCK)
    ok = tl.arange(0, BLOCK) < cols
    x = tl.load(x_ptr + at, mask=ok, other=0.0)
    cube = x * x * x
    t = 2.0 * tl.sigmoid(1.5957691216 * (x + 0.044715 * cube)) - 1.0
    tl.store(y_ptr + at, 0.5 * x * (1.0 + t), mask=ok)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    gelu_row[(rows,)](x, y, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
    return y
