"""Square tiles turned by tl.trans."""

import torch
import triton
import triton.language as tl


@triton.jit
def turn(x_ptr, y_ptr, R, C, B: tl.constexpr):
    r = tl.program_id(1) * B + tl.arange(0, B)
    c = tl.program_id(0) * B + tl.arange(0, B)
    t = tl.load(x_ptr + r[:, None] * C + c[None, :], mask=(r < R)[:, None] & (c < C)[None, :])
    tl.store(y_ptr + c[:, None] * R + r[None, :], tl.trans(t), mask=(c < C)[:, None] & (r < R)[None, :])


def run(x):
    rows, cols = x.shape
    y = torch.empty((cols, rows), device=x.device, dtype=x.dtype)
    turn[(triton.cdiv(cols, 64), triton.cdiv(rows, 64))](x, y, rows, cols, B=64, num_warps=4)
    return y
