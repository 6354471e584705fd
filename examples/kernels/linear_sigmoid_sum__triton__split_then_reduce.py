"""Slices of k into a workspace; a row kernel adds slices, applies the sigmoid and sums."""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_linear(x_ptr, w_ptr, part_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    s = tl.program_id(2)
    end = min(K, (s + 1) * span)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(s * span, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < end)[None, :], other=0.0)
        acc = tl.dot(x, tl.trans(w), acc, input_precision="tf32x3")
    tl.store(part_ptr + s * M * N + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def sigmoid_rows(part_ptr, bias_ptr, y_ptr, M, N, slices, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        j = start + tl.arange(0, BLOCK)
        z = tl.load(bias_ptr + j, mask=j < N, other=0.0)
        for s in range(slices):
            z += tl.load(part_ptr + s * M * N + row * N + j, mask=j < N, other=0.0)
        total += tl.where(j < N, 1.0 / (1.0 + tl.exp(-z)), 0.0)
    tl.store(y_ptr + row, tl.sum(total, axis=0))


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    slices = max(1, min(16, k // 64))
    span = triton.cdiv(k, slices)
    part = torch.empty((slices, m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, 1), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), slices)
    partial_linear[grid](x, weight, part, m, n, k, span, BM=64, BN=64, BK=32, num_warps=4, num_stages=3)
    sigmoid_rows[(m,)](part, bias, y, m, n, slices, BLOCK=256, num_warps=4)
    return y
