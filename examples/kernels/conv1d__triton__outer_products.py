"""Rank-one updates: each input channel and tap adds the outer product of 32 weights and 128 positions."""

import torch
import triton
import triton.language as tl


@triton.jit
def outer_products(x_ptr, w_ptr, y_ptr, C, L, OC, OL, K: tl.constexpr, BO: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(0, C):
        for k in tl.static_range(K):
            wt = tl.load(w_ptr + (o * C + c) * K + k, mask=o < OC, other=0.0)
            xs = tl.load(x_ptr + (n * C + c) * L + p + k, mask=p < OL, other=0.0)
            acc += wt[:, None] * xs[None, :]
    tl.store(y_ptr + (n * OC + o[:, None]) * OL + p[None, :], acc, mask=(o < OC)[:, None] & (p < OL)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC, _, K = weight.shape
    OL = L - K + 1
    y = torch.empty((N, OC, OL), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OL, 128), triton.cdiv(OC, 32), N)
    outer_products[grid](x, weight, y, C, L, OC, OL, K=K, BO=32, BP=128, num_warps=4)
    return y
