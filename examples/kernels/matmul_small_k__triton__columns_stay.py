"""A program keeps its columns of B and walks down many row tiles of A; plain fp32 products."""

import torch
import triton
import triton.language as tl


@triton.jit
def walk_rows(a_ptr, b_ptr, c_ptr, M, N, K, tall, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    b = tl.load(b_ptr + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
    top = tl.program_id(1) * tall
    for r in range(top, min(top + tall, M), BM):
        rm = r + tl.arange(0, BM)
        a = tl.load(a_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        out = tl.dot(a, b, input_precision="ieee")
        at = rm.to(tl.int64)[:, None] * N + rn[None, :]
        tl.store(c_ptr + at, out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    tall = 1024
    depth = max(16, triton.next_power_of_2(k))
    walk_rows[(triton.cdiv(n, 128), triton.cdiv(m, tall))](
        a, b, c, m, n, k, tall, BM=32, BN=128, BK=depth, num_warps=4, num_stages=3
    )
    return c
