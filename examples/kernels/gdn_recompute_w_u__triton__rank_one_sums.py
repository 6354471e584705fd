"""Column by column of the matrix: outer products with one key and one value line at a time."""

import torch
import triton
import triton.language as tl


@triton.jit
def rank_one(
    k_ptr,
    v_ptr,
    beta_ptr,
    a_ptr,
    g_ptr,
    w_ptr,
    u_ptr,
    H,
    K: tl.constexpr,
    V: tl.constexpr,
    BT: tl.constexpr,
    BI: tl.constexpr,
):
    slot = tl.program_id(0).to(tl.int64)
    base = (slot // H) * BT
    head = slot % H
    rows = (base + tl.program_id(1) * BI + tl.arange(0, BI)) * H + head
    d = tl.arange(0, K)
    c = tl.arange(0, V)
    w = tl.zeros((BI, K), dtype=tl.float32)
    u = tl.zeros((BI, V), dtype=tl.float32)
    for j in range((tl.program_id(1) + 1) * BI):
        row = (base + j) * H + head
        column = tl.load(a_ptr + rows * BT + j) * tl.load(beta_ptr + row)
        k = tl.load(k_ptr + row * K + d) * tl.exp(tl.load(g_ptr + row))
        v = tl.load(v_ptr + row * V + c)
        w += column[:, None] * k[None, :]
        u += column[:, None] * v[None, :]
    tl.store(w_ptr + rows[:, None] * K + d[None, :], w)
    tl.store(u_ptr + rows[:, None] * V + c[None, :], u)


def run(k, v, beta, a, g):
    b, t, h, dk = k.shape
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    rank_one[(b * (t // 64) * h, 4)](k, v, beta, a, g, w, u, h, K=dk, V=v.shape[-1], BT=64, BI=16, num_warps=2)
    return w, u
