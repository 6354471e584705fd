"""A program owns a strip of 256 columns and walks down 64 rows of it, with a base-two exponential."""

import torch
import triton
import triton.language as tl


@triton.jit
def sigmoid_strip(x_ptr, y_ptr, rows, cols, SPAN: tl.constexpr, WIDTH: tl.constexpr):
    c = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    top = tl.program_id(1) * SPAN
    base = top.to(tl.int64) * cols
    for row in range(0, min(SPAN, rows - top)):
        at = base + row * cols + c
        x = tl.load(x_ptr + at, mask=c < cols, other=0.0)
        tl.store(y_ptr + at, 1.0 / (1.0 + tl.exp2(x * -1.4426950408889634)), mask=c < cols)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(cols, 256), triton.cdiv(rows, 64))
    sigmoid_strip[grid](x, y, rows, cols, SPAN=64, WIDTH=256, num_warps=2)
    return y
