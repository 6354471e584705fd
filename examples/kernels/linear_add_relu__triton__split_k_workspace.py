"""Four slices of the inner dimension into a workspace, a second kernel adds them up and applies the epilogue."""

import torch
import triton
import triton.language as tl

SLICES = 4


@triton.jit
def slice_product(x_ptr, w_ptr, work_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    piece = tl.program_id(2)
    end = min(K, (piece + 1) * span)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(piece * span, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < end)[:, None], other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    out = work_ptr + piece * M * N + rm[:, None] * N + rn[None, :]
    tl.store(out, acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def finish(work_ptr, add_ptr, y_ptr, total, N, slices, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < total
    s = tl.load(add_ptr + i % N, mask=ok, other=0.0)
    for piece in range(slices):
        s += tl.load(work_ptr + piece * total + i, mask=ok, other=0.0)
    tl.store(y_ptr + i, tl.where(s > 0, s, 0.0), mask=ok)


def run(x, weight, added):
    m, k = x.shape
    n = weight.shape[0]
    span = triton.cdiv(k, SLICES)
    work = torch.empty((SLICES, m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 64), SLICES)
    slice_product[grid](x, weight, work, m, n, k, span, BM=64, BN=64, BK=16, num_warps=4, num_stages=3)
    finish[(triton.cdiv(m * n, 1024),)](work, added, y, m * n, n, SLICES, BLOCK=1024)
    return y
