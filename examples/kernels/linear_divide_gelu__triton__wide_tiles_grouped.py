"""Tiles of 128 by 256, visited in groups of row blocks so that neighbours share weights, epilogue in registers."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_tiles(
    x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr
):
    pid = tl.program_id(0)
    down = tl.cdiv(M, BM)
    across = tl.cdiv(N, BN)
    first = (pid // (GROUP * across)) * GROUP
    height = tl.minimum(down - first, GROUP)
    rm = (first + pid % (GROUP * across) % height) * BM + tl.arange(0, BM)
    rn = (pid % (GROUP * across) // height) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    x_at = x_ptr + (rm % M)[:, None] * K + rk[None, :]
    w_at = w_ptr + (rn % N)[None, :] * K + rk[:, None]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        x = tl.load(x_at, mask=rk[None, :] < K - k, other=0.0)
        w = tl.load(w_at, mask=rk[:, None] < K - k, other=0.0)
        acc = tl.dot(x, w, acc)
        x_at += BK
        w_at += BK
    bias = tl.load(b_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)
    v = (acc + bias[None, :]) * 0.1
    v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(y_ptr + rm[:, None] * N + rn[None, :], v.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.float16)
    grid = (triton.cdiv(m, 128) * triton.cdiv(n, 256),)
    gelu_tiles[grid](x, weight, bias, y, m, n, k, BM=128, BN=256, BK=64, GROUP=8, num_warps=8, num_stages=3)
    return y
