"""Value and position become one 64-bit key; tiles reduce keys by plain integer minimum and meet in an atomic."""

import torch
import triton
import triton.language as tl


@triton.jit
def key_tiles(x_ptr, key_ptr, L, W, BL: tl.constexpr, BW: tl.constexpr):
    b = tl.program_id(2).to(tl.int64)
    pos = tl.program_id(1) * BL + tl.arange(0, BL)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    ok = (pos < L)[:, None] & (w < W)[None, :]
    x = tl.load(x_ptr + b * L * W + pos[:, None] * W + w[None, :], mask=ok, other=float("inf"))
    bits = (x + 0.0).to(tl.int32, bitcast=True)
    # Negative floats sort backwards as integers: flip all but their sign.
    ordered = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    key = (ordered.to(tl.int64) << 32) | pos[:, None].to(tl.int64)
    tl.atomic_min(key_ptr + b * W + w, tl.min(key, axis=0), mask=w < W)


@triton.jit
def positions_of(key_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + i, mask=i < n, other=0)
    tl.store(out_ptr + i, key & 0xFFFFFFFF, mask=i < n)


def run(x):
    B, L, W = x.shape
    keys = torch.full((B, W), 2**63 - 1, device=x.device, dtype=torch.int64)
    out = torch.empty((B, W), device=x.device, dtype=torch.int64)
    key_tiles[(triton.cdiv(W, 64), triton.cdiv(L, 64), B)](x, keys, L, W, BL=64, BW=64, num_warps=8)
    positions_of[(triton.cdiv(B * W, 1024),)](keys, out, B * W, BLOCK=1024, num_warps=4)
    return out
