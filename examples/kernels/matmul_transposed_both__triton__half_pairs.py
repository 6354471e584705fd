"""Three half-precision products on tiles loaded as they lie and turned by the tensor cores."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    main = tl.zeros((BM, BN), dtype=tl.float32)
    cross = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(a_ptr + rk[:, None] * M + rm[None, :], mask=(rk < K)[:, None] & (rm < M)[None, :], other=0.0)
        b = tl.load(b_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < K)[None, :], other=0.0)
        a_high = a.to(tl.float16)
        b_high = b.to(tl.float16)
        a_low = ((a - a_high.to(tl.float32)) * 2048.0).to(tl.float16)
        b_low = ((b - b_high.to(tl.float32)) * 2048.0).to(tl.float16)
        main = tl.dot(tl.trans(a_high), tl.trans(b_high), main)
        cross = tl.dot(tl.trans(a_high), tl.trans(b_low), cross)
        cross = tl.dot(tl.trans(a_low), tl.trans(b_high), cross)
    out = main + cross * (1.0 / 2048.0)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], out, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(a, b):
    k, m = a.shape
    n = b.shape[0]
    c = torch.empty((m, n), device=a.device, dtype=torch.float32)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    product[grid](a, b, c, m, n, k, BM=128, BN=128, BK=32, num_warps=8, num_stages=3)
    return c
