"""Four slices of k per tile; whoever arrives last adds the partial tiles and finishes. Plain fp32 products."""

import torch
import triton
import triton.language as tl

SLICES = 4


@triton.jit
def linear(
    x_ptr,
    w_ptr,
    bias_ptr,
    work_ptr,
    count_ptr,
    y_ptr,
    M,
    N,
    K,
    span,
    SLICES: tl.constexpr,
    B: tl.constexpr,
    BK: tl.constexpr,
):
    tile = tl.program_id(0)
    piece = tl.program_id(1)
    tiles_n = tl.cdiv(N, B)
    rm = tile // tiles_n * B + tl.arange(0, B)
    rn = tile % tiles_n * B + tl.arange(0, B)
    end = min((piece + 1) * span, K)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for k in range(piece * span, end, BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < M)[:, None] & (rk < end)[None, :], other=0.0)
        w = tl.load(w_ptr + rn[None, :] * K + rk[:, None], mask=(rn < N)[None, :] & (rk < end)[:, None], other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    at = rm[:, None] * N + rn[None, :]
    inside = (rm < M)[:, None] & (rn < N)[None, :]
    tl.store(work_ptr + piece * M * N + at, acc, mask=inside)
    tl.debug_barrier()
    if tl.atomic_add(count_ptr + tile, 1, sem="acq_rel") == SLICES - 1:
        total = tl.zeros((B, B), dtype=tl.float32)
        for p in range(SLICES):
            total += tl.load(work_ptr + p * M * N + at, mask=inside, other=0.0, cache_modifier=".cg")
        v = (total + tl.load(bias_ptr + rn, mask=rn < N, other=0.0)[None, :] - 2.0) * 1.5
        tl.store(y_ptr + at, tl.where(v > 0.0, v, 0.0), mask=inside)


def run(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    tiles = triton.cdiv(m, 64) * triton.cdiv(n, 64)
    work = torch.empty((SLICES, m, n), device=x.device, dtype=torch.float32)
    count = torch.zeros((tiles,), device=x.device, dtype=torch.int32)
    y = torch.empty((m, n), device=x.device, dtype=torch.float32)
    linear[(tiles, SLICES)](
        x,
        weight,
        bias,
        work,
        count,
        y,
        m,
        n,
        k,
        triton.cdiv(k, SLICES),
        SLICES=SLICES,
        B=64,
        BK=16,
        num_warps=4,
        num_stages=4,
    )
    return y
