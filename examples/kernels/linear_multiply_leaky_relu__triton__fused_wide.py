"""One wave of wide tiles; bias, doubling and the leak happen before the only store."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear(x_ptr, w_ptr, bias_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x_at = x_ptr + rm[:, None] * K + rk[None, :]
    w_at = w_ptr + rn[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_at, mask=(rm < M)[:, None] & (rk < K - k)[None, :], other=0.0)
        w = tl.load(w_at, mask=(rn < N)[None, :] & (rk < K - k)[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
        x_at += BK
        w_at += BK
    bias = tl.load(bias_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
    v = (acc + bias[None, :]) * 2.0
    v = tl.where(v > 0.0, v, 0.1 * v).to(tl.bfloat16)
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], v, mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 256))
    linear[grid](x, weight, bias, y, m, n, k, BM=128, BN=256, BK=64, num_warps=8, num_stages=4)
    return y
