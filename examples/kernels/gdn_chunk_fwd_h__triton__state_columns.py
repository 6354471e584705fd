"""A program carries sixteen columns of a head's state through all chunks; products in three tf32 passes."""

import torch
import triton
import triton.language as tl


@triton.jit
def carry(
    k_ptr,
    w_ptr,
    u_ptr,
    g_ptr,
    h_ptr,
    new_ptr,
    T,
    H,
    K: tl.constexpr,
    V: tl.constexpr,
    BV: tl.constexpr,
    BT: tl.constexpr,
):
    batch = (tl.program_id(0) // H).to(tl.int64)
    head = tl.program_id(0) % H
    c = tl.program_id(1) * BV + tl.arange(0, BV)
    d = tl.arange(0, K)
    state = tl.zeros((K, BV), dtype=tl.float32)
    chunks = T // BT
    for n in range(chunks):
        at = h_ptr + ((batch * chunks + n) * H + head) * K * V
        tl.store(at + d[:, None] * V + c[None, :], state)
        rows = (batch * T + n * BT + tl.arange(0, BT)) * H + head
        w = tl.load(w_ptr + rows[:, None] * K + d[None, :])
        u = tl.load(u_ptr + rows[:, None] * V + c[None, :])
        fresh = u - tl.dot(w, state, input_precision="tf32x3")
        tl.store(new_ptr + rows[:, None] * V + c[None, :], fresh)
        g = tl.load(g_ptr + rows)
        last = tl.load(g_ptr + (batch * T + n * BT + BT - 1) * H + head)
        k = tl.load(k_ptr + rows[None, :] * K + d[:, None])
        state = tl.dot(k, fresh * tl.exp(last - g)[:, None], state * tl.exp(last), input_precision="tf32x3")


def run(k, w, u, g):
    b, t, h, dk = k.shape
    dv = u.shape[-1]
    states = torch.empty((b, t // 64, h, dk, dv), device=k.device, dtype=torch.float32)
    fresh = torch.empty_like(u)
    carry[(b * h, dv // 16)](k, w, u, g, states, fresh, t, h, K=dk, V=dv, BV=16, BT=64, num_warps=4, num_stages=2)
    return states, fresh
