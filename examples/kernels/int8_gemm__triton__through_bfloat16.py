"""Bytes are widened to bfloat16, which holds them exactly, and multiplied with a float32 accumulator."""

import torch
import triton
import triton.language as tl


@triton.jit
def widened_tiles(x_ptr, w_ptr, xs_ptr, ws_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(1) * BM + tl.arange(0, BM)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0)
        w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < K)[:, None], other=0)
        acc = tl.dot(x.to(tl.bfloat16), w.to(tl.bfloat16), acc)
    acc *= tl.load(xs_ptr + rm, mask=rm < M, other=0.0)[:, None]
    acc *= tl.load(ws_ptr + rn, mask=rn < N, other=0.0)[None, :]
    out = y_ptr + rm[:, None] * N + rn[None, :]
    tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(n, 128), triton.cdiv(m, 128))
    widened_tiles[grid](x, weight, x_scale, weight_scale, y, m, n, k, BM=128, BN=128, BK=64, num_warps=8, num_stages=3)
    return y
