"""Each program counts row tiles through the offsets to find its expert and rows, then does one tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_tiles(x_ptr, w_ptr, off_ptr, y_ptr, groups, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(1)
    group = -1
    start = 0
    low = 0
    high = 0
    for g in range(0, groups):
        end = tl.load(off_ptr + g)
        count = (end - start + BM - 1) // BM
        mine = (tile >= 0) & (tile < count)
        group = tl.where(mine, g, group)
        low = tl.where(mine, start + tile * BM, low)
        high = tl.where(mine, end, high)
        tile = tl.where(mine, -1, tile - count)
        start = end
    if group >= 0:
        rm = low + tl.arange(0, BM)
        rn = tl.program_id(0) * BN + tl.arange(0, BN)
        rk = tl.arange(0, BK)
        x_at = x_ptr + rm[:, None] * K + rk[None, :]
        w_at = w_ptr + group.to(tl.int64) * K * N + rk[:, None] * N + rn[None, :]
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            x = tl.load(x_at, mask=(rm < high)[:, None] & (rk < K - k)[None, :], other=0.0)
            w = tl.load(w_at, mask=(rk < K - k)[:, None] & (rn < N)[None, :], other=0.0)
            acc = tl.dot(x, w, acc)
            x_at += BK
            w_at += BK * N
        out = y_ptr + rm[:, None] * N + rn[None, :]
        tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(rm < high)[:, None] & (rn < N)[None, :])


def run(x, weight, offsets):
    tokens, k = x.shape
    groups, _, n = weight.shape
    y = torch.empty((tokens, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(n, 256), tokens // 128 + groups)
    grouped_tiles[grid](x, weight, offsets, y, groups, n, k, BM=128, BN=256, BK=64, num_warps=8, num_stages=3)
    return y
