"""Four slices of the inner dimension add integer tiles into one buffer with atomics; a second kernel scales by rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_slice(x_ptr, w_ptr, sum_ptr, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    begin = tl.program_id(2) * span
    end = tl.minimum(begin + span, K)
    acc = tl.zeros((BM, BN), dtype=tl.int32)
    for k in range(begin, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0)
        w = tl.load(w_ptr + rn[:, None] * K + rk[None, :], mask=(rn < N)[:, None] & (rk < end)[None, :], other=0)
        acc += tl.dot(x, tl.trans(w), out_dtype=tl.int32)
    tl.atomic_add(sum_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm < M)[:, None] & (rn < N)[None, :])


@triton.jit
def scale_row(sum_ptr, xs_ptr, ws_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(xs_ptr + row)
    for start in range(0, N, BLOCK):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(sum_ptr + row * N + c, mask=c < N, other=0).to(tl.float32) * s
        v *= tl.load(ws_ptr + c, mask=c < N, other=0.0)
        tl.store(y_ptr + row * N + c, v.to(y_ptr.dtype.element_ty), mask=c < N)


def run(x, weight, x_scale, weight_scale):
    m, k = x.shape
    n = weight.shape[0]
    slices = 4 if k >= 1024 else 2
    sums = torch.zeros((m, n), device=x.device, dtype=torch.int32)
    y = torch.empty((m, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(m, 64), triton.cdiv(n, 128), slices)
    span = triton.cdiv(k, slices)
    add_slice[grid](x, weight, sums, m, n, k, span, BM=64, BN=128, BK=64, num_warps=4, num_stages=3)
    scale_row[(m,)](sums, x_scale, weight_scale, y, n, BLOCK=1024, num_warps=4)
    return y
