"""Each fp32 operand becomes a half plus a scaled half remainder; three half products replace one fp32 product."""

import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(2048.0)


@triton.jit
def pair_product(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
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
    main = tl.zeros((BM, BN), dtype=tl.float32)
    cross = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_at, mask=(rm < M)[:, None] & (rk < K - k)[None, :], other=0.0)
        b = tl.load(b_at, mask=(rk < K - k)[:, None] & (rn < N)[None, :], other=0.0)
        a_high = a.to(tl.float16)
        b_high = b.to(tl.float16)
        a_low = ((a - a_high.to(tl.float32)) * SCALE).to(tl.float16)
        b_low = ((b - b_high.to(tl.float32)) * SCALE).to(tl.float16)
        main = tl.dot(a_high, b_high, main)
        cross = tl.dot(a_high, b_low, cross)
        cross = tl.dot(a_low, b_high, cross)
        a_at += BK
        b_at += BK * N
    out = main + cross / SCALE
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(m, 128) * triton.cdiv(n, 128),)
    pair_product[grid](a, b, c, m, n, k, BM=128, BN=128, BK=32, GROUP=4, num_warps=8, num_stages=3)
    return c
