"""A matrix product makes all tap products of all inputs; a second kernel adds the two that overlap in an output."""

import torch
import triton
import triton.language as tl


@triton.jit
def tap_products(x_ptr, w_ptr, t_ptr, C, L, rows, BR: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    r = tl.program_id(1) * BR + tl.arange(0, BR)  # output channel and tap
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    acc = tl.zeros((BR, BP), dtype=tl.float32)
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        wt = tl.load(w_ptr + c[None, :] * rows + r[:, None], mask=(r < rows)[:, None] & (c < C)[None, :], other=0.0)
        xs = tl.load(x_ptr + (n * C + c[:, None]) * L + p[None, :], mask=(c < C)[:, None] & (p < L)[None, :], other=0.0)
        acc = tl.dot(wt, xs, acc, input_precision="ieee")
    tl.store(t_ptr + (n * rows + r[:, None]) * L + p[None, :], acc, mask=(r < rows)[:, None] & (p < L)[None, :])


@triton.jit
def overlap_add(t_ptr, y_ptr, L, BLOCK: tl.constexpr):
    line = tl.program_id(1).to(tl.int64)  # image and output channel
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = (t + 1) % 2
    # Taps of the right parity: `first` reaches from the input further right, `first + 2` from the one before it.
    i = (t + 1 - first) // 2
    near = tl.load(t_ptr + (line * 4 + first) * L + i, mask=(t < 2 * L) & (i < L), other=0.0)
    far = tl.load(t_ptr + (line * 4 + first + 2) * L + i - 1, mask=(t < 2 * L) & (i >= 1), other=0.0)
    tl.store(y_ptr + line * 2 * L + t, near + far, mask=t < 2 * L)


def run(x, weight):
    N, C, L = x.shape
    OC = weight.shape[1]
    rows = OC * 4
    products = torch.empty((N, rows, L), device=x.device, dtype=torch.float32)
    y = torch.empty((N, OC, 2 * L), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(L, 128), triton.cdiv(rows, 64), N)
    tap_products[grid](x, weight, products, C, L, rows, BR=64, BC=16, BP=128, num_warps=8, num_stages=2)
    overlap_add[(triton.cdiv(2 * L, 1024), N * OC)](products, y, L, BLOCK=1024, num_warps=4)
    return y
