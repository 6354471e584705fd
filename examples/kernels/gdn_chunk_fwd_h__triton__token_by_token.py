"""Tokens one at a time: a sum over the state's rows, then an outer product into the next state."""

import torch
import triton
import triton.language as tl


@triton.jit
def tokens(
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
        last = tl.load(g_ptr + (batch * T + n * BT + BT - 1) * H + head)
        coming = state * tl.exp(last)
        for i in range(BT):
            row = (batch * T + n * BT + i) * H + head
            w = tl.load(w_ptr + row * K + d)
            k = tl.load(k_ptr + row * K + d)
            u = tl.load(u_ptr + row * V + c)
            fresh = u - tl.sum(w[:, None] * state, axis=0)
            tl.store(new_ptr + row * V + c, fresh)
            decay = tl.exp(last - tl.load(g_ptr + row))
            coming += k[:, None] * (fresh * decay)[None, :]
        state = coming


def run(k, w, u, g):
    b, t, h, dk = k.shape
    dv = u.shape[-1]
    states = torch.empty((b, t // 64, h, dk, dv), device=k.device, dtype=torch.float32)
    fresh = torch.empty_like(u)
    tokens[(b * h, dv // 8)](k, w, u, g, states, fresh, t, h, K=dk, V=dv, BV=8, BT=64, num_warps=1)
    return states, fresh
