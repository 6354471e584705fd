"""One kernel writes decayed queries and scores side by side, a second multiplies by state and values stacked."""

import torch
import triton
import triton.language as tl


@triton.jit
def left_operand(q_ptr, k_ptr, g_ptr, left_ptr, scale, H, D: tl.constexpr, BT: tl.constexpr, BI: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    head = slot % H
    chunk = slot // H
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    j = tl.arange(0, BT)
    d = tl.arange(0, D)
    row_i = (chunk * BT + i) * H + head
    row_j = (chunk * BT + j) * H + head
    gi = tl.load(g_ptr + row_i)
    gj = tl.load(g_ptr + row_j)
    q = tl.load(q_ptr + row_i[:, None] * D + d[None, :]) * scale
    k = tl.load(k_ptr + row_j[None, :] * D + d[:, None])
    lower = i[:, None] >= j[None, :]
    a = tl.dot(q, k, input_precision="ieee") * tl.exp(tl.where(lower, gi[:, None] - gj[None, :], 0.0))
    base = left_ptr + (slot * BT + i[:, None]) * (D + BT)
    tl.store(base + d[None, :], q * tl.exp(gi)[:, None])
    tl.store(base + D + j[None, :], tl.where(lower, a, 0.0))


@triton.jit
def multiply(left_ptr, h_ptr, v_ptr, o_ptr, H, D: tl.constexpr, BT: tl.constexpr, BI: tl.constexpr, BK: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    head = slot % H
    chunk = slot // H
    i = tl.program_id(1) * BI + tl.arange(0, BI)
    d = tl.arange(0, D)
    base = left_ptr + (slot * BT + i[:, None]) * (D + BT)
    acc = tl.zeros((BI, D), dtype=tl.float32)
    for start in range(0, D, BK):
        r = start + tl.arange(0, BK)
        a = tl.load(base + r[None, :])
        acc = tl.dot(a, tl.load(h_ptr + (slot * D + r[:, None]) * D + d[None, :]), acc, input_precision="ieee")
    for start in range(0, BT, BK):
        r = start + tl.arange(0, BK)
        a = tl.load(base + D + r[None, :])
        at = ((chunk * BT + r) * H + head)[:, None] * D + d[None, :]
        acc = tl.dot(a, tl.load(v_ptr + at), acc, input_precision="ieee")
    rows = (chunk * BT + i) * H + head
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc)


def run(q, k, v, h, g):
    b, t, heads, d = q.shape
    o = torch.empty_like(v)
    slots = b * (t // 64) * heads
    left = torch.empty((slots, 64, d + 64), device=q.device, dtype=torch.float32)
    left_operand[(slots, 2)](q, k, g, left, d**-0.5, heads, D=d, BT=64, BI=32, num_warps=4)
    multiply[(slots, 2)](left, h, v, o, heads, D=d, BT=64, BI=32, BK=32, num_warps=4, num_stages=2)
    return o
