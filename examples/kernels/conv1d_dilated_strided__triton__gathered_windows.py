"""Channels and taps are one inner dimension; window places are gathered while the tile is loaded."""

import torch
import triton
import triton.language as tl


@triton.jit
def gathered(x_ptr, w_ptr, y_ptr, C, L, OC, OL, K: tl.constexpr, BO: tl.constexpr, BK: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    depth = C * K
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for start in range(0, depth, BK):
        r = start + tl.arange(0, BK)
        shift = (r // K) * L + (r % K) * 4
        wt = tl.load(w_ptr + o[:, None] * depth + r[None, :], mask=(o < OC)[:, None] & (r < depth)[None, :], other=0.0)
        xs = tl.load(
            x_ptr + n * C * L + shift[:, None] + 3 * p[None, :],
            mask=(r < depth)[:, None] & (p < OL)[None, :],
            other=0.0,
        )
        acc = tl.dot(wt, xs, acc, input_precision="ieee")
    tl.store(y_ptr + (n * OC + o[:, None]) * OL + p[None, :], acc, mask=(o < OC)[:, None] & (p < OL)[None, :])


def run(x, weight):
    N, C, L = x.shape
    OC, _, K = weight.shape
    OL = (L - 4 * (K - 1) - 1) // 3 + 1
    y = torch.empty((N, OC, OL), device=x.device, dtype=torch.float32)
    grid = (triton.cdiv(OL, 64), triton.cdiv(OC, 128), N)
    gathered[grid](x, weight, y, C, L, OC, OL, K=K, BO=128, BK=16, BP=64, num_warps=8, num_stages=2)
    return y
