"""Outer products over a few rows and many columns, streaming stores."""

import torch
import triton
import triton.language as tl


@triton.jit
def wide_outer(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    cols = tl.program_id(0) * BN + tl.arange(0, BN)
    rows = tl.program_id(1) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + rows * K + k, mask=rows < M, other=0.0)
        b = tl.load(b_ptr + k * N + cols, mask=cols < N, other=0.0)
        acc += a[:, None] * b[None, :]
    where = rows[:, None].to(tl.int64) * N + cols[None, :]
    tl.store(c_ptr + where, acc, mask=(rows[:, None] < M) & (cols[None, :] < N), cache_modifier=".cs")


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    wide_outer[(triton.cdiv(n, 512), triton.cdiv(m, 16))](a, b, c, m, n, k, BM=16, BN=512, num_warps=8)
    return c
