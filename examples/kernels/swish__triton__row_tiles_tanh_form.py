"""Tiles of 4 rows by 512 columns walk along their rows; x/2 (1 + tanh(x/2)) with tanh from one base-two exponential."""

import torch
import triton
import triton.language as tl


@triton.jit
def swish_walk(x_ptr, y_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    inside = (r < rows)[:, None]
    base = r[:, None].to(tl.int64) * cols
    for start in range(0, cols, C):
        c = start + tl.arange(0, C)[None, :]
        ok = inside & (c < cols)
        x = tl.load(x_ptr + base + c, mask=ok, other=0.0)
        e = tl.exp2(-1.4426950408889634 * tl.abs(x))
        t = (1.0 - e) / (1.0 + e)
        half = 0.5 * x
        tl.store(y_ptr + base + c, half + tl.abs(half) * t, mask=ok)


def run(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    swish_walk[(triton.cdiv(rows, 4),)](x, y, rows, cols, R=4, C=512, num_warps=8)
    return y
