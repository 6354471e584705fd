"""A program keeps its rows of A and visits every column tile of one batch entry in turn."""

import torch
import triton
import triton.language as tl


@triton.jit
def bmm_rows(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    strips = tl.cdiv(M, BM)
    batch = (tl.program_id(0) // strips).to(tl.int64)
    rm = (tl.program_id(0) % strips) * BM + tl.arange(0, BM)
    a_base = a_ptr + batch * M * K + rm[:, None] * K
    b_base = b_ptr + batch * K * N
    for n in range(0, N, BN):
        rn = n + tl.arange(0, BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            a = tl.load(a_base + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
            b = tl.load(b_base + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
            acc += tl.dot(a, b, input_precision="ieee")
        tl.store(c_ptr + batch * M * N + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    batch, m, k = a.shape
    n = b.shape[2]
    c = torch.empty((batch, m, n), device=a.device, dtype=torch.float32)
    bmm_rows[(batch * triton.cdiv(m, 32),)](a, b, c, m, n, k, BM=32, BN=64, BK=32, num_warps=4, num_stages=2)
    return c
