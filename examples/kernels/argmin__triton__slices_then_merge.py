"""Length is cut into slices with their own winners; a second kernel picks among the slices of a column."""

import torch
import triton
import triton.language as tl


@triton.jit
def slice_winners(x_ptr, low_ptr, at_ptr, L, W, slices, length, BW: tl.constexpr):
    b = tl.program_id(2).to(tl.int64)
    s = tl.program_id(1)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    ok = w < W
    first = s * length
    base = x_ptr + b * L * W + w
    best = tl.full((BW,), float("inf"), dtype=tl.float32)
    where = tl.zeros((BW,), dtype=tl.int32) + first
    for pos in range(first, tl.minimum(first + length, L)):
        v = tl.load(base + pos * W, mask=ok, other=0.0)
        better = v < best
        best = tl.where(better, v, best)
        where = tl.where(better, pos, where)
    here = (b * slices + s) * W + w
    tl.store(low_ptr + here, best, mask=ok)
    tl.store(at_ptr + here, where, mask=ok)


@triton.jit
def merge_slices(low_ptr, at_ptr, out_ptr, W, slices, BS: tl.constexpr, BW: tl.constexpr):
    b = tl.program_id(1)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    s = tl.arange(0, BS)
    here = (b * slices + s[:, None]) * W + w[None, :]
    ok = (s < slices)[:, None] & (w < W)[None, :]
    low = tl.load(low_ptr + here, mask=ok, other=float("inf"))
    at = tl.load(at_ptr + here, mask=ok, other=0x7FFFFFFF)
    least = tl.min(low, axis=0)
    # Among slices that reach the minimum the earliest position wins.
    found = tl.min(tl.where(low == least[None, :], at, 0x7FFFFFFF), axis=0)
    tl.store(out_ptr + b * W + w, found.to(tl.int64), mask=w < W)


def run(x):
    B, L, W = x.shape
    length = 64
    slices = triton.cdiv(L, length)
    low = torch.empty((B, slices, W), device=x.device, dtype=torch.float32)
    at = torch.empty((B, slices, W), device=x.device, dtype=torch.int32)
    out = torch.empty((B, W), device=x.device, dtype=torch.int64)
    slice_winners[(triton.cdiv(W, 256), slices, B)](x, low, at, L, W, slices, length, BW=256, num_warps=4)
    merge_slices[(triton.cdiv(W, 64), B)](
        low, at, out, W, slices, BS=triton.next_power_of_2(slices), BW=64, num_warps=4
    )
    return out
