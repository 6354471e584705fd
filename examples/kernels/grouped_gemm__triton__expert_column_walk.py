"""A program belongs to an expert and a strip of columns and walks over that expert's rows, so weights stay close."""

import torch
import triton
import triton.language as tl


@triton.jit
def expert_strip(x_ptr, w_ptr, off_ptr, y_ptr, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    group = tl.program_id(1)
    start = tl.load(off_ptr + group - 1, mask=group > 0, other=0)
    end = tl.load(off_ptr + group)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    weights = w_ptr + group.to(tl.int64) * K * N
    for first in range(start, end, BM):
        rm = first + tl.arange(0, BM)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            rk = k + tl.arange(0, BK)
            x = tl.load(x_ptr + rm[:, None] * K + rk[None, :], mask=(rm < end)[:, None] & (rk < K)[None, :], other=0.0)
            w = tl.load(weights + rk[:, None] * N + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
            acc = tl.dot(x, w, acc)
        out = y_ptr + rm[:, None] * N + rn[None, :]
        tl.store(out, acc.to(y_ptr.dtype.element_ty), mask=(rm < end)[:, None] & (rn < N)[None, :])


def run(x, weight, offsets):
    tokens, k = x.shape
    groups, _, n = weight.shape
    y = torch.empty((tokens, n), device=x.device, dtype=torch.bfloat16)
    grid = (triton.cdiv(n, 64), groups)
    expert_strip[grid](x, weight, offsets, y, n, k, BM=64, BN=64, BK=64, num_warps=4, num_stages=3)
    return y
