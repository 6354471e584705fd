"""Depthwise results go through memory; a second kernel mixes channels by outer products."""

import torch
import triton
import triton.language as tl


@triton.jit
def depthwise_rows(x_ptr, d_ptr, t_ptr, C, H, W, OH, OW, BW: tl.constexpr):
    line = tl.program_id(0).to(tl.int64)  # image and channel
    row = tl.program_id(1)
    col = tl.program_id(2) * BW + tl.arange(0, BW)
    acc = tl.zeros((BW,), dtype=tl.float32)
    for i in tl.static_range(3):
        for j in tl.static_range(3):
            tap = tl.load(d_ptr + (line % C) * 9 + i * 3 + j)
            acc += tap * tl.load(x_ptr + (line * H + row + i) * W + col + j, mask=col < OW, other=0.0)
    tl.store(t_ptr + (line * OH + row) * OW + col, acc, mask=col < OW)


@triton.jit
def mix_channels(t_ptr, m_ptr, y_ptr, C, OC, plane, BO: tl.constexpr, BP: tl.constexpr):
    n = tl.program_id(2).to(tl.int64)
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    o = tl.program_id(1) * BO + tl.arange(0, BO)
    acc = tl.zeros((BO, BP), dtype=tl.float32)
    for c in range(0, C):
        mix = tl.load(m_ptr + o * C + c, mask=o < OC, other=0.0)
        t = tl.load(t_ptr + (n * C + c) * plane + p, mask=p < plane, other=0.0)
        acc += mix[:, None] * t[None, :]
    tl.store(y_ptr + (n * OC + o[:, None]) * plane + p[None, :], acc, mask=(o < OC)[:, None] & (p < plane)[None, :])


def run(x, depthwise, pointwise):
    N, C, H, W = x.shape
    OC = pointwise.shape[0]
    OH, OW = H - 2, W - 2
    between = torch.empty((N, C, OH, OW), device=x.device, dtype=torch.float32)
    y = torch.empty((N, OC, OH, OW), device=x.device, dtype=torch.float32)
    depthwise_rows[(N * C, OH, triton.cdiv(OW, 128))](x, depthwise, between, C, H, W, OH, OW, BW=128, num_warps=1)
    grid = (triton.cdiv(OH * OW, 256), triton.cdiv(OC, 32), N)
    mix_channels[grid](between, pointwise, y, C, OC, OH * OW, BO=32, BP=256, num_warps=8)
    return y
