"""All five projections in one float32 kernel; a second adds outer products with channels last and finishes in place."""

import torch
import triton
import triton.language as tl

HIDDEN = 128


@triton.jit
def project_all(
    x_ptr,
    nw_ptr,
    nb_ptr,
    lw_ptr,
    rw_ptr,
    lg_ptr,
    rg_ptr,
    og_ptr,
    mask_ptr,
    left_ptr,
    right_ptr,
    gate_ptr,
    T,
    D,
    C: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    c = tl.arange(0, C)
    row = t.to(tl.int64)[:, None] * D
    total = tl.zeros((BT,), dtype=tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        total += tl.sum(tl.load(x_ptr + row + k[None, :], mask=(t < T)[:, None] & (k < D)[None, :], other=0.0), axis=1)
    mean = total / D
    spread = tl.zeros((BT,), dtype=tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        ok = (t < T)[:, None] & (k < D)[None, :]
        gap = tl.where(ok, tl.load(x_ptr + row + k[None, :], mask=ok, other=0.0) - mean[:, None], 0.0)
        spread += tl.sum(gap * gap, axis=1)
    scale = 1.0 / tl.sqrt(spread / D + 1e-5)
    left = tl.zeros((BT, C), dtype=tl.float32)
    right = tl.zeros((BT, C), dtype=tl.float32)
    left_gate = tl.zeros((BT, C), dtype=tl.float32)
    right_gate = tl.zeros((BT, C), dtype=tl.float32)
    out_gate = tl.zeros((BT, C), dtype=tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        inside = (k < D)[:, None]
        x = tl.load(x_ptr + row + k[None, :], mask=(t < T)[:, None] & (k < D)[None, :], other=0.0)
        nw = tl.load(nw_ptr + k, mask=k < D, other=0.0)
        nb = tl.load(nb_ptr + k, mask=k < D, other=0.0)
        x = (x - mean[:, None]) * scale[:, None] * nw[None, :] + nb[None, :]
        at = c[None, :] * D + k[:, None]
        left = tl.dot(x, tl.load(lw_ptr + at, mask=inside, other=0.0), left, input_precision="ieee")
        right = tl.dot(x, tl.load(rw_ptr + at, mask=inside, other=0.0), right, input_precision="ieee")
        left_gate = tl.dot(x, tl.load(lg_ptr + at, mask=inside, other=0.0), left_gate, input_precision="ieee")
        right_gate = tl.dot(x, tl.load(rg_ptr + at, mask=inside, other=0.0), right_gate, input_precision="ieee")
        out_gate = tl.dot(x, tl.load(og_ptr + at, mask=inside, other=0.0), out_gate, input_precision="ieee")
    keep = tl.load(mask_ptr + t, mask=t < T, other=0.0)[:, None]
    to = t.to(tl.int64)[:, None] * C + c[None, :]
    ok = (t < T)[:, None]
    tl.store(left_ptr + to, left * keep * tl.sigmoid(left_gate), mask=ok)
    tl.store(right_ptr + to, right * keep * tl.sigmoid(right_gate), mask=ok)
    tl.store(gate_ptr + to, tl.sigmoid(out_gate), mask=ok)


@triton.jit
def outer_products(
    left_ptr,
    right_ptr,
    gate_ptr,
    nw_ptr,
    nb_ptr,
    w_ptr,
    y_ptr,
    N,
    D,
    C: tl.constexpr,
    B: tl.constexpr,
    BD: tl.constexpr,
):
    batch = tl.program_id(2).to(tl.int64) * N * N
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    acc = tl.zeros((B, B, C), dtype=tl.float32)
    for k in range(N):
        left = tl.load(left_ptr + (batch + i[:, None] * N + k) * C + c[None, :], mask=(i < N)[:, None], other=0.0)
        right = tl.load(right_ptr + (batch + j[:, None] * N + k) * C + c[None, :], mask=(j < N)[:, None], other=0.0)
        acc += left[:, None, :] * right[None, :, :]
    z = tl.reshape(acc, (B * B, C))
    z -= (tl.sum(z, axis=1) / C)[:, None]
    scale = 1.0 / tl.sqrt(tl.sum(z * z, axis=1) / C + 1e-5)
    z = z * scale[:, None] * tl.load(nw_ptr + c)[None, :] + tl.load(nb_ptr + c)[None, :]
    pair = tl.arange(0, B * B)
    pi = tl.program_id(0) * B + pair // B
    pj = tl.program_id(1) * B + pair % B
    ok = ((pi < N) & (pj < N))[:, None]
    at = batch + pi * N + pj
    z *= tl.load(gate_ptr + at[:, None] * C + c[None, :], mask=ok, other=0.0)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        w = tl.load(w_ptr + d[None, :] * C + c[:, None], mask=(d < D)[None, :], other=0.0)
        y = tl.dot(z, w, input_precision="ieee")
        tl.store(y_ptr + at[:, None] * D + d[None, :], y, mask=ok & (d < D)[None, :])


def run(
    x,
    mask,
    norm_weight,
    norm_bias,
    left_weight,
    right_weight,
    left_gate_weight,
    right_gate_weight,
    out_gate_weight,
    out_norm_weight,
    out_norm_bias,
    out_weight,
):
    b, n, _, d = x.shape
    tokens = b * n * n
    left = torch.empty((tokens, HIDDEN), device=x.device, dtype=torch.float32)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    y = torch.empty_like(x)
    weights = (left_weight, right_weight, left_gate_weight, right_gate_weight, out_gate_weight)
    project_all[(triton.cdiv(tokens, 32),)](
        x, norm_weight, norm_bias, *weights, mask, left, right, gate, tokens, d, C=HIDDEN, BT=32, BK=16, num_warps=8
    )
    side = triton.cdiv(n, 8)
    outer_products[(side, side, b)](
        left, right, gate, out_norm_weight, out_norm_bias, out_weight, y, n, d, C=HIDDEN, B=8, BD=32, num_warps=8
    )
    return y
