"""The transposed result B A needs no turned operand; each finished tile is turned before its store."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    per_group = GROUP * tl.cdiv(N, BN)
    first = pid // per_group * GROUP
    rows = min(GROUP, tiles_m - first)
    rm = (first + pid % per_group % rows) * BM + tl.arange(0, BM)
    rn = pid % per_group // rows * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_at = a_ptr + rk[:, None] * M + rm[None, :]
    b_at = b_ptr + rn[:, None] * K + rk[None, :]
    acc = tl.zeros((BN, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_at, mask=(rk < K - k)[:, None] & (rm < M)[None, :], other=0.0)
        b = tl.load(b_at, mask=(rn < N)[:, None] & (rk < K - k)[None, :], other=0.0)
        acc = tl.dot(b, a, acc, input_precision="ieee")
        a_at += BK * M
        b_at += BK
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], tl.trans(acc), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    k, m = a.shape
    n = b.shape[0]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(m, 64) * triton.cdiv(n, 128),)
    product[grid](a, b, c, m, n, k, BM=64, BN=128, BK=16, GROUP=8, num_warps=8, num_stages=4)
    return c
