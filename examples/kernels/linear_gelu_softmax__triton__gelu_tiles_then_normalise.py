"""Tiles write their GELU values as halves with a maximum and sum per row; a program per row then normalises."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_tiles(
    x_ptr, w_ptr, b_ptr, z_ptr, top_ptr, sum_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
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
    v = acc + tl.load(b_ptr + rn, mask=rn < N, other=0.0).to(tl.float32)[None, :]
    v = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(z_ptr + rm[:, None] * N + rn[None, :], v.to(tl.float16), mask=(rm < M)[:, None] & (rn < N)[None, :])
    v = tl.where((rn < N)[None, :], v, float("-inf"))
    top = tl.max(v, axis=1)
    out = rm * tl.num_programs(1) + tl.program_id(1)
    tl.store(top_ptr + out, top, mask=rm < M)
    tl.store(sum_ptr + out, tl.sum(tl.exp(v - top[:, None]), axis=1), mask=rm < M)


@triton.jit
def normalise(z_ptr, top_ptr, sum_ptr, y_ptr, N, parts, P: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    p = tl.arange(0, P)
    tops = tl.load(top_ptr + row * parts + p, mask=p < parts, other=float("-inf"))
    sums = tl.load(sum_ptr + row * parts + p, mask=p < parts, other=0.0)
    top = tl.max(tops, axis=0)
    scale = 1.0 / tl.sum(sums * tl.exp(tops - top), axis=0)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        z = tl.load(z_ptr + row * N + c, mask=c < N, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * N + c, (tl.exp(z - top) * scale).to(y_ptr.dtype.element_ty), mask=c < N)


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    parts = triton.cdiv(n, 256)
    z = torch.empty((m, n), device=x.device, dtype=torch.float16)
    tops = torch.empty((m, parts), device=x.device, dtype=torch.float32)
    sums = torch.empty((m, parts), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 128), parts)
    gelu_tiles[grid](x, weight, bias, z, tops, sums, m, n, k, BM=128, BN=256, BK=64, num_warps=8, num_stages=3)
    normalise[(m,)](z, tops, sums, y, n, parts, P=triton.next_power_of_2(parts), BLOCK=2048, num_warps=8)
    return y
