"""Writes the unrolled windows as a matrix to memory, then runs a plain matrix product over it."""

import torch
import triton
import triton.language as tl


@triton.jit
def unroll_windows(x_ptr, col_ptr, L, OL, K, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    line = tl.program_id(1).to(tl.int64)  # image, channel and tap
    v = tl.load(x_ptr + (line // K) * L + line % K + p, mask=p < OL, other=0.0)
    tl.store(col_ptr + line * OL + p, v, mask=p < OL)


@triton.jit
def gemm(col_ptr, w_ptr, y_ptr, depth, OC, OL, BO: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        k = start + tl.arange(0, BK)
        wt = tl.load(w_ptr + o[:, None] * depth + k[None, :], mask=(o < OC)[:, None] & (k < depth)[None, :], other=0.0)
        cols = tl.load(
            col_ptr + (n * depth + k[:, None]) * OL + p[None, :],
            mask=(k < depth)[:, None] & (p < OL)[None, :],
            other=0.0,
        )
        acc = tl.dot(wt, cols, acc, input_precision="ieee")
    tl.store(y_ptr + (n * OC + o[:, None]) * OL + p[None, :], acc, mask=(o < OC)[:, None] & (p < OL)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC, _, K = weight.shape
    OL = L - K + 1
    columns = torch.empty((N, C * K, OL), device=x.device, dtype=torch.float32)
    y = torch.empty((N, OC, OL), device=x.device, dtype=torch.float32)
    unroll_windows[(triton.cdiv(OL, 1024), N * C * K)](x, columns, L, OL, K, BLOCK=1024, num_warps=4)
    grid = (triton.cdiv(OL, 64), triton.cdiv(OC, 64), N)
    gemm[grid](columns, weight, y, C * K, OC, OL, BO=64, BK=16, BP=64, num_warps=4, num_stages=3)
    return y
