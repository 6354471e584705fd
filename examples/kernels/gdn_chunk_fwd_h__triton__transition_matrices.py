"""Every chunk becomes a matrix and an offset in parallel, a short kernel applies them in turn, a third forms v_new."""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_maps(k_ptr, w_ptr, u_ptr, g_ptr, m_ptr, n_ptr, T, H, D: tl.constexpr, BT: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    head = slot % H
    chunk = slot // H
    rows = (chunk * BT + tl.arange(0, BT)) * H + head
    d = tl.arange(0, D)
    g = tl.load(g_ptr + rows)
    last = tl.load(g_ptr + (chunk * BT + BT - 1) * H + head)
    k = tl.load(k_ptr + rows[None, :] * D + d[:, None]) * tl.exp(last - g)[None, :]
    w = tl.load(w_ptr + rows[:, None] * D + d[None, :])
    u = tl.load(u_ptr + rows[:, None] * D + d[None, :])
    keep = tl.where(d[:, None] == d[None, :], tl.exp(last), 0.0)
    at = slot * D * D + d[:, None] * D + d[None, :]
    tl.store(m_ptr + at, keep - tl.dot(k, w, input_precision="tf32x3"))
    tl.store(n_ptr + at, tl.dot(k, u, input_precision="tf32x3"))


@triton.jit
def apply_maps(m_ptr, n_ptr, h_ptr, chunks, H, D: tl.constexpr, BV: tl.constexpr):
    batch = (tl.program_id(0) // H).to(tl.int64)
    head = tl.program_id(0) % H
    d = tl.arange(0, D)
    c = tl.program_id(1) * BV + tl.arange(0, BV)
    state = tl.zeros((D, BV), dtype=tl.float32)
    for n in range(chunks):
        base = ((batch * chunks + n) * H + head) * D * D
        tl.store(h_ptr + base + d[:, None] * D + c[None, :], state)
        m = tl.load(m_ptr + base + d[:, None] * D + d[None, :])
        offset = tl.load(n_ptr + base + d[:, None] * D + c[None, :])
        state = tl.dot(m, state, offset, input_precision="tf32x3")


@triton.jit
def fresh_values(w_ptr, u_ptr, h_ptr, new_ptr, T, H, D: tl.constexpr, BT: tl.constexpr):
    slot = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, D)
    rows = ((slot // H) * BT + tl.arange(0, BT)) * H + slot % H
    at = rows[:, None] * D + d[None, :]
    state = tl.load(h_ptr + slot * D * D + d[:, None] * D + d[None, :])
    lost = tl.dot(tl.load(w_ptr + at), state, input_precision="tf32x3")
    tl.store(new_ptr + at, tl.load(u_ptr + at) - lost)


def run(k, w, u, g):
    b, t, h, d = k.shape
    chunks = t // 64
    states = torch.empty((b, chunks, h, d, d), device=k.device, dtype=torch.float32)
    maps = torch.empty_like(states)
    offsets = torch.empty_like(states)
    fresh = torch.empty_like(u)
    chunk_maps[(b * chunks * h,)](k, w, u, g, maps, offsets, t, h, D=d, BT=64, num_warps=4)
    apply_maps[(b * h, d // 16)](maps, offsets, states, chunks, h, D=d, BV=16, num_warps=4)
    fresh_values[(b * chunks * h,)](w, u, states, fresh, t, h, D=d, BT=64, num_warps=4)
    return states, fresh
