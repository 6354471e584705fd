"""Thirty-two rows of one product per program, in exact float32, and only the blocks on and below the diagonal."""

import torch
import triton
import triton.language as tl


@triton.jit
def blocks(
    x_ptr,
    beta_ptr,
    a_ptr,
    g_ptr,
    y_ptr,
    H,
    DECAY: tl.constexpr,
    D: tl.constexpr,
    BT: tl.constexpr,
    BI: tl.constexpr,
    BJ: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    base = (slot // H) * BT
    head = slot % H
    d = tl.arange(0, D)
    i = part * BI + tl.arange(0, BI)
    rows = (base + i) * H + head
    acc = tl.zeros((BI, D), dtype=tl.float32)
    for start in range(0, (part + 1) * BI, BJ):
        j = start + tl.arange(0, BJ)
        from_rows = (base + j) * H + head
        factor = tl.load(beta_ptr + from_rows)
        if DECAY:
            factor *= tl.exp(tl.load(g_ptr + from_rows))
        x = tl.load(x_ptr + from_rows[:, None] * D + d[None, :])
        a = tl.load(a_ptr + rows[:, None] * BT + j[None, :]) * factor[None, :]
        acc = tl.dot(a, x, acc, input_precision="ieee")
    tl.store(y_ptr + rows[:, None] * D + d[None, :], acc)


def run(k, v, beta, a, g):
    b, t, h, dk = k.shape
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    grid = (b * (t // 64) * h, 2)
    blocks[grid](k, beta, a, g, w, h, DECAY=True, D=dk, BT=64, BI=32, BJ=16, num_warps=4)
    blocks[grid](v, beta, a, g, u, h, DECAY=False, D=v.shape[-1], BT=64, BI=32, BJ=16, num_warps=4)
    return w, u
