"""Tiles are widened to float16 in registers and multiplied as halves; a program walks down a column of row tiles."""

import torch
import triton
import triton.language as tl


@triton.jit
def widened_column(
    x_ptr, w_ptr, xs_ptr, ws_ptr, y_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    begin = tl.program_id(1) * span
    for first in range(begin, tl.minimum(begin + span, M), BM):
        rm = first + tl.arange(0, BM)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
            w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < K)[:, None], other=0.0)
            acc = tl.dot(x.to(tl.float16), w.to(tl.float16), acc)
        acc *= tl.load(xs_ptr + rm, mask=rm < M, other=0.0)[:, None]
        acc *= tl.load(ws_ptr + rn, mask=rn < N, other=0.0)[None, :]
        out = y_ptr + rm[:, None] * N + rn[None, :]
        tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(n, 128), triton.cdiv(m, 512))
    widened_column[grid](
        x, weight, x_scale, weight_scale, y, m, n, k, 512, BM=64, BN=128, BK=64, num_warps=4, num_stages=3
    )
    return y
