"""Both matrices are first copied into buffers padded to whole tiles; the product then needs no masks."""

import torch
import triton
import triton.language as tl


@triton.jit
def pad(x_ptr, y_ptr, rows, cols, wide, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    q = tl.program_id(1) * BC + tl.arange(0, BC)
    x = tl.load(x_ptr + r[:, None] * cols + q[None, :], mask=(r < rows)[:, None] & (q < cols)[None, :], other=0.0)
    tl.store(y_ptr + r[:, None] * wide + q[None, :], x)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, KP, NP, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_at = a_ptr + rm[:, None] * KP + rk[None, :]
    b_at = b_ptr + rk[:, None] * NP + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, KP, BK):
        acc = tl.dot(tl.load(a_at), tl.load(b_at), acc, input_precision="tf32x3")
        a_at += BK
        b_at += BK * NP
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    mp, np, kp = triton.cdiv(m, 64) * 64, triton.cdiv(n, 64) * 64, triton.cdiv(k, 64) * 64
    wide_a = torch.empty((mp, kp), device=a.device, dtype=torch.float32)
    wide_b = torch.empty((kp, np), device=a.device, dtype=torch.float32)
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    pad[(mp // 32, kp // 64)](a, wide_a, m, k, kp, BR=32, BC=64)
    pad[(kp // 32, np // 64)](b, wide_b, k, n, np, BR=32, BC=64)
    product[(mp // 64, np // 64)](wide_a, wide_b, c, m, n, kp, np, BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
    return c
