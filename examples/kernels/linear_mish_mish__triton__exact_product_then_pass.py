"""A plain fp32 product writes pre-activations; an elementwise kernel rewrites them in place."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(x_ptr, w_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < K)[None, :], other=0.0)
        acc += tl.dot(x, tl.trans(w), input_precision="ieee")
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def mish(v):
    # Softplus without overflow, then tanh through exp of a negative number.
    soft = tl.maximum(v, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(v)))
    e = tl.exp(-2.0 * soft)
    return v * (1.0 - e) / (1.0 + e)


@triton.jit
def activate(y_ptr, bias_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = y_ptr + row * N + col
    v = tl.load(at, mask=col < N, other=0.0) + tl.load(bias_ptr + col, mask=col < N, other=0.0)
    tl.store(at, mish(mish(v)), mask=col < N)


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(n, 32), triton.cdiv(m, 64))
    product[grid](x, weight, y, m, n, k, BM=64, BN=32, BK=32, num_warps=4, num_stages=3)
    activate[(m, triton.cdiv(n, 1024))](y, bias, n, BLOCK=1024, num_warps=4)
    return y
