"""Wide flat tiles grow by one outer product for each k."""

import torch
import triton
import triton.language as tl


@triton.jit
def outer(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(K):
        a = tl.load(a_ptr + rm * K + k, mask=rm < M, other=0.0)
        b = tl.load(b_ptr + k * N + rn, mask=rn < N, other=0.0)
        acc += a[:, None] * b[None, :]
    at = rm.to(tl.int64)[:, None] * N + rn[None, :]
    tl.store(c_ptr + at, acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    outer[(triton.cdiv(m, 16), triton.cdiv(n, 512))](a, b, c, m, n, k, BM=16, BN=512, num_warps=8)
    return c
