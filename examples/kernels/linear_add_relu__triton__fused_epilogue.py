"""One pass: product tile, then add and ReLU before the store."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear_relu(x_ptr, w_ptr, add_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < K)[None, :], other=0.0)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="tf32x3")
    acc += tl.load(add_ptr + rn, mask=rn < N, other=0.0)[None, :]
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], tl.maximum(acc, 0.0), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, added):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float32)
    linear_relu[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
        x, weight, added, y, m, n, k, BM=64, BN=64, BK=32, num_warps=4, num_stages=3
    )
    return y
