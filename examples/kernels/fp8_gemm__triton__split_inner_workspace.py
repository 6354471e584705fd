"""Native dot products over two slices of the inner dimension in a workspace; a second kernel adds and scales."""

import torch
import triton
import triton.language as tl


@triton.jit
def slice_product(x_ptr, w_ptr, work_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    piece = tl.program_id(2)
    end = tl.minimum((piece + 1) * span, K)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(piece * span, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < end)[:, None], other=0.0)
        acc += tl.dot(x, w)
    out = work_ptr + piece * M * N + rm[:, None] * N + rn[None, :]
    tl.store(out, acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def add_and_scale(work_ptr, xs_ptr, ws_ptr, y_ptr, M, N, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = row * N + c
    v = tl.load(work_ptr + at, mask=c < N, other=0.0) + tl.load(work_ptr + M * N + at, mask=c < N, other=0.0)
    v = v * tl.load(xs_ptr + row) * tl.load(ws_ptr + c, mask=c < N, other=0.0)
    tl.store(y_ptr + at, v.to(y_ptr.dtype.element_ty), mask=c < N)


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    work = torch.empty((2, m, n), device=x.device, dtype=torch.float32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128), 2)
    slice_product[grid](x, weight, work, m, n, k, triton.cdiv(k, 2), BM=128, BN=128, BK=128, num_warps=4, num_stages=3)
    add_and_scale[(triton.cdiv(n, 1024), m)](work, x_scale, weight_scale, y, m, n, BLOCK=1024, num_warps=4)
    return y
