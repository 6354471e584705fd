"""The batch is a grid axis; 64 by 64 tiles with strides passed in."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, a_batch, c_batch, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    a_ptr += tl.program_id(2).to(tl.int64) * a_batch
    c_ptr += tl.program_id(2).to(tl.int64) * c_batch
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
        acc += tl.dot(a, b)
    out = acc.to(tl.bfloat16)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    batch, m, k = a.shape
    n = b.shape[1]
    c = torch.empty((batch, m, n), device=a.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), batch)
    product[grid](a, b, c, m, n, k, m * k, m * n, BM=64, BN=64, BK=32, num_warps=4, num_stages=4)
    return c
