"""The symmetry is left alone: wide tiles in grouped order."""

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
    a_at = a_ptr + rm[:, None] * K + rk[None, :]
    b_at = b_ptr + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_at, mask=(rm < M)[:, None] & (rk < K - k)[None, :], other=0.0)
        b = tl.load(b_at, mask=(rk < K - k)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(a, b, acc)
        a_at += BK
        b_at += BK * N
    out = acc.to(tl.bfloat16)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    n = a.shape[0]
    c = torch.empty_like(a)
    grid = (triton.cdiv(n, 128) * triton.cdiv(n, 256),)
    product[grid](a, b, c, n, n, n, BM=128, BN=256, BK=64, GROUP=8, num_warps=8, num_stages=4)
    return c
