"""Computes the transpose of each tile, so that columns of B are the long side, and turns it at the end."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    for tile in range(tl.program_id(0), tl.cdiv(M, BM) * tiles_n, tl.num_programs(0)):
        rm = (tile // tiles_n * BM + tl.arange(0, BM)).to(tl.int64)
        rn = tile % tiles_n * BN + tl.arange(0, BN)
        acc = tl.zeros((BN, BM), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            a = tl.load(a_ptr + rm[None, :] * K + rk[:, None], mask=(rm < M)[None, :] & (rk < K)[:, None], other=0.0)
            b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
            acc = tl.dot(tl.trans(b), a, acc)
        out = tl.trans(acc.to(tl.bfloat16))
        tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    batch, rows, k = a.shape
    n = b.shape[1]
    m = batch * rows
    c = torch.empty((batch, rows, n), device=a.device, dtype=torch.bfloat16)
    tiles = triton.cdiv(m, 64) * triton.cdiv(n, 128)
    product[(min(tiles, 264),)](a, b, c, m, n, k, BM=64, BN=128, BK=64, num_warps=4, num_stages=3)
    return c
