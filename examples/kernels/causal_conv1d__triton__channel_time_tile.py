"""A tile of channels by time, taps in a runtime loop, filters loaded as a column vector."""

import torch
import triton
import triton.language as tl


@triton.jit
def causal_tile(x_ptr, w_ptr, b_ptr, y_ptr, C, L, taps, BC: tl.constexpr, BT: tl.constexpr):
    image = tl.program_id(2)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    live = c < C
    rows = (image * C + c).to(tl.int64) * L
    acc = tl.zeros((BC, BT), dtype=tl.float32)
    acc += tl.load(b_ptr + c, mask=live, other=0.0).to(tl.float32)[:, None]
    for j in range(taps):
        s = t + j - (taps - 1)
        w = tl.load(w_ptr + c * taps + j, mask=live, other=0.0).to(tl.float32)
        x = tl.load(
            x_ptr + rows[:, None] + s[None, :], mask=live[:, None] & (s >= 0)[None, :] & (s < L)[None, :], other=0.0
        )
        acc += w[:, None] * x.to(tl.float32)
    y = acc * tl.sigmoid(acc)
    tl.store(y_ptr + rows[:, None] + t[None, :], y.to(y_ptr.dtype.element_ty), mask=live[:, None] & (t < L)[None, :])


def run(x, weight, bias):
    n, c, length = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(length, 256), triton.cdiv(c, 8), n)
    causal_tile[grid](x, weight, bias, y, c, length, weight.shape[1], BC=8, BT=256, num_warps=4)
    return y
