"""One program per chunk and head does its three products in three tf32 passes each."""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_output(q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, scale, H, D: tl.constexpr, BT: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    head = slot % H
    chunk = slot // H
    i = tl.arange(0, BT)
    d = tl.arange(0, D)
    rows = (chunk * BT + i) * H + head
    q = tl.load(q_ptr + rows[:, None] * D + d[None, :])
    k = tl.load(k_ptr + rows[None, :] * D + d[:, None])
    g = tl.load(g_ptr + rows)
    lower = i[:, None] >= i[None, :]
    gap = tl.where(lower, g[:, None] - g[None, :], 0.0)
    a = tl.where(lower, tl.dot(q, k, input_precision="tf32x3") * tl.exp(gap), 0.0)
    state = tl.load(h_ptr + slot * D * D + d[:, None] * D + d[None, :])
    acc = tl.dot(q, state, input_precision="tf32x3") * tl.exp(g)[:, None]
    v = tl.load(v_ptr + rows[:, None] * D + d[None, :])
    acc = tl.dot(a, v, acc, input_precision="tf32x3")
    tl.store(o_ptr + rows[:, None] * D + d[None, :], acc * scale)


def run(q, k, v, h, g):
    b, t, heads, d = q.shape
    o = torch.empty_like(v)
    chunk_output[(b * (t // 64) * heads,)](q, k, v, h, g, o, d**-0.5, heads, D=d, BT=64, num_warps=4)
    return o
