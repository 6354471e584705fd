"""Outer products for each k from the tile's first column to its last row; zero tiles are only filled."""

import torch
import triton
import triton.language as tl


@triton.jit
def outer(a_ptr, b_ptr, c_ptr, N, BM: tl.constexpr, BN: tl.constexpr):
    m0 = (tl.num_programs(0) - 1 - tl.program_id(0)) * BM
    n0 = tl.program_id(1) * BN
    rm = m0 + tl.arange(0, BM)
    rn = n0 + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(n0, min(m0 + BM, N)):
        a = tl.load(a_ptr + rm * N + k, mask=rm < N, other=0.0)
        b = tl.load(b_ptr + k * N + rn, mask=rn < N, other=0.0)
        acc += a[:, None] * b[None, :]
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < N)[:, None] & (rn < N)[None, :])


def run(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    outer[(triton.cdiv(n, 32), triton.cdiv(n, 128))](a, b, c, n, BM=32, BN=128, num_warps=4)
    return c
