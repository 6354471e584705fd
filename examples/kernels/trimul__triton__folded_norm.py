"""The first normalisation is folded into the projections: row sums are gathered beside raw products, in tf32."""

import torch
import triton
import triton.language as tl

HIDDEN = 128


@triton.jit
def project_raw(
    x_ptr,
    nw_ptr,
    nb_ptr,
    w_ptr,
    gate_ptr,
    mask_ptr,
    out_ptr,
    T,
    D,
    area,
    C,
    GATED: tl.constexpr,
    BC: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    total = tl.zeros((BT,), dtype=tl.float32)
    squares = tl.zeros((BT,), dtype=tl.float32)
    acc = tl.zeros((BC, BT), dtype=tl.float32)
    gate = tl.zeros((BC, BT), dtype=tl.float32)
    acc_mean = tl.zeros((BC,), dtype=tl.float32)
    acc_bias = tl.zeros((BC,), dtype=tl.float32)
    gate_mean = tl.zeros((BC,), dtype=tl.float32)
    gate_bias = tl.zeros((BC,), dtype=tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        ok = (t < T)[None, :] & (k < D)[:, None]
        x = tl.load(x_ptr + t.to(tl.int64)[None, :] * D + k[:, None], mask=ok, other=0.0)
        total += tl.sum(x, axis=0)
        squares += tl.sum(x * x, axis=0)
        nw = tl.load(nw_ptr + k, mask=k < D, other=0.0)
        nb = tl.load(nb_ptr + k, mask=k < D, other=0.0)
        w = tl.load(w_ptr + c[:, None] * D + k[None, :], mask=(k < D)[None, :], other=0.0)
        scaled = w * nw[None, :]
        acc = tl.dot(scaled, x, acc, input_precision="tf32")
        acc_mean += tl.sum(scaled, axis=1)
        acc_bias += tl.sum(w * nb[None, :], axis=1)
        if GATED:
            g = tl.load(gate_ptr + c[:, None] * D + k[None, :], mask=(k < D)[None, :], other=0.0)
            scaled_gate = g * nw[None, :]
            gate = tl.dot(scaled_gate, x, gate, input_precision="tf32")
            gate_mean += tl.sum(scaled_gate, axis=1)
            gate_bias += tl.sum(g * nb[None, :], axis=1)
    mean = total / D
    scale = 1.0 / tl.sqrt(tl.maximum(squares / D - mean * mean, 0.0) + 1e-5)
    value = (acc - acc_mean[:, None] * mean[None, :]) * scale[None, :] + acc_bias[:, None]
    if GATED:
        opened = (gate - gate_mean[:, None] * mean[None, :]) * scale[None, :] + gate_bias[:, None]
        value = value * tl.load(mask_ptr + t, mask=t < T, other=0.0)[None, :] * tl.sigmoid(opened)
    else:
        value = tl.sigmoid(value)
    to = (t // area).to(tl.int64)[None, :] * C * area + c[:, None] * area + (t % area)[None, :]
    tl.store(out_ptr + to, value, mask=(t < T)[None, :])


@triton.jit
def triangle(left_ptr, right_ptr, out_ptr, N, BI: tl.constexpr, BK: tl.constexpr):
    base = tl.program_id(2).to(tl.int64) * N * N
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    j = tl.program_id(1) * BI + tl.arange(0, BI)
    acc = tl.zeros((BI, BI), dtype=tl.float32)
    for start in range(0, N, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(left_ptr + base + i[:, None] * N + k[None, :], mask=(i < N)[:, None] & (k < N)[None, :], other=0.0)
        b = tl.load(right_ptr + base + j[:, None] * N + k[None, :], mask=(j < N)[:, None] & (k < N)[None, :], other=0.0)
        acc = tl.dot(a, tl.trans(b), acc, input_precision="tf32")
    tl.store(out_ptr + base + i[:, None] * N + j[None, :], acc, mask=(i < N)[:, None] & (j < N)[None, :])


@triton.jit
def finish_folded(
    p_ptr, gate_ptr, nw_ptr, nb_ptr, w_ptr, y_ptr, T, D, area, C: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr
):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    c = tl.arange(0, C)
    at = (t // area).to(tl.int64)[None, :] * C * area + c[:, None] * area + (t % area)[None, :]
    p = tl.load(p_ptr + at, mask=(t < T)[None, :], other=0.0)
    p -= (tl.sum(p, axis=0) / C)[None, :]
    scale = 1.0 / tl.sqrt(tl.sum(p * p, axis=0) / C + 1e-5)
    p = p * scale[None, :] * tl.load(nw_ptr + c)[:, None] + tl.load(nb_ptr + c)[:, None]
    p *= tl.load(gate_ptr + at, mask=(t < T)[None, :], other=0.0)
    d = tl.program_id(1) * BD + tl.arange(0, BD)
    w = tl.load(w_ptr + d[:, None] * C + c[None, :], mask=(d < D)[:, None], other=0.0)
    y = tl.dot(w, p, input_precision="tf32")
    tl.store(y_ptr + t.to(tl.int64)[None, :] * D + d[:, None], y, mask=(t < T)[None, :] & (d < D)[:, None])


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
    tokens, area = b * n * n, n * n
    left = torch.empty((b, HIDDEN, n, n), device=x.device, dtype=torch.float32)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    product = torch.empty_like(left)
    y = torch.empty_like(x)
    grid = (triton.cdiv(tokens, 64), 2)
    plan = ((left, left_weight, left_gate_weight, True), (right, right_weight, right_gate_weight, True))
    for out, w, g, gated in (*plan, (gate, out_gate_weight, out_gate_weight, False)):
        project_raw[grid](
            x,
            norm_weight,
            norm_bias,
            w,
            g,
            mask,
            out,
            tokens,
            d,
            area,
            HIDDEN,
            GATED=gated,
            BC=64,
            BT=64,
            BK=32,
            num_warps=4,
        )
    tiles = (triton.cdiv(n, 64), triton.cdiv(n, 64), b * HIDDEN)
    triangle[tiles](left, right, product, n, BI=64, BK=32, num_warps=4, num_stages=3)
    last = (triton.cdiv(tokens, 32), triton.cdiv(d, 32))
    finish_folded[last](
        product,
        gate,
        out_norm_weight,
        out_norm_bias,
        out_weight,
        y,
        tokens,
        d,
        area,
        C=HIDDEN,
        BT=32,
        BD=32,
        num_warps=4,
    )
    return y
