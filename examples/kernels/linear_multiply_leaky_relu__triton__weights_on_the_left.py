"""Persistent programs compute weight rows times input rows, so the bias is a column, and turn the tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear(x_ptr, w_ptr, bias_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_m = tl.cdiv(M, BM)
    for tile in range(tl.program_id(0), tiles_m * tl.cdiv(N, BN), tl.num_programs(0)):
        rm = tile % tiles_m * BM + tl.arange(0, BM)
        rn = tile // tiles_m * BN + tl.arange(0, BN)
        bias = tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
        acc = tl.zeros((BN, BM), dtype=tl.float32) + bias[:, None]
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < K)[None, :], other=0.0)
            x = tl.load(x_ptr + rm[None, :] * K + rk[:, None], mask=(rm < M)[None, :] & (rk < K)[:, None], other=0.0)
            acc = tl.dot(w, x, acc)
        v = tl.trans(acc)
        v = tl.where(v > 0.0, 2.0 * v, 0.2 * v).to(tl.bfloat16)
        tl.store(y_ptr + rm[:, None] * N + rn[None, :], v, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    tiles = triton.cdiv(m, 64) * triton.cdiv(n, 64)
    linear[(min(tiles, 528),)](x, weight, bias, y, m, n, k, BM=64, BN=64, BK=64, num_warps=4, num_stages=3)
    return y
