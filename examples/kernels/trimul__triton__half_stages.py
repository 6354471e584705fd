"""Normalise, project, multiply per channel, finish: four kernels with float16 tensor-core products between them."""

import torch
import triton
import triton.language as tl

HIDDEN = 128


@triton.jit
def normalise(x_ptr, weight_ptr, bias_ptr, out_ptr, T, D, BR: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    d = tl.arange(0, BD)
    ok = (rows < T)[:, None] & (d < D)[None, :]
    at = rows.to(tl.int64)[:, None] * D + d[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=0.0)
    centred = tl.where(ok, x - (tl.sum(x, axis=1) / D)[:, None], 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(centred * centred, axis=1) / D + 1e-5)
    weight = tl.load(weight_ptr + d, mask=d < D, other=0.0)
    bias = tl.load(bias_ptr + d, mask=d < D, other=0.0)
    tl.store(out_ptr + at, (centred * scale[:, None] * weight[None, :] + bias[None, :]).to(tl.float16), mask=ok)


@triton.jit
def project(
    x_ptr,
    w_ptr,
    gate_ptr,
    mask_ptr,
    out_ptr,
    T,
    D,
    area,
    GATED: tl.constexpr,
    C: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    c = tl.arange(0, C)
    k = tl.arange(0, BK)
    acc = tl.zeros((C, BT), dtype=tl.float32)
    gate = tl.zeros((C, BT), dtype=tl.float32)
    for start in range(0, D, BK):
        kk = start + k
        at = t.to(tl.int64)[None, :] * D + kk[:, None]
        x = tl.load(x_ptr + at, mask=(t < T)[None, :] & (kk < D)[:, None], other=0.0)
        spot = c[:, None] * D + kk[None, :]
        w = tl.load(w_ptr + spot, mask=(kk < D)[None, :], other=0.0).to(tl.float16)
        acc = tl.dot(w, x, acc)
        if GATED:
            g = tl.load(gate_ptr + spot, mask=(kk < D)[None, :], other=0.0).to(tl.float16)
            gate = tl.dot(g, x, gate)
    if GATED:
        keep = tl.load(mask_ptr + t, mask=t < T, other=0.0)
        acc = acc * keep[None, :] * tl.sigmoid(gate)
    else:
        acc = tl.sigmoid(acc)
    to = (t // area).to(tl.int64)[None, :] * C * area + c[:, None] * area + (t % area)[None, :]
    tl.store(out_ptr + to, acc.to(tl.float16), mask=(t < T)[None, :])


@triton.jit
def triangle(left_ptr, right_ptr, out_ptr, N, BI: tl.constexpr, BJ: tl.constexpr, BK: tl.constexpr):
    base = tl.program_id(2).to(tl.int64) * N * N
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    j = tl.program_id(1) * BJ + tl.arange(0, BJ)
    acc = tl.zeros((BI, BJ), dtype=tl.float32)
    for start in range(0, N, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(left_ptr + base + i[:, None] * N + k[None, :], mask=(i < N)[:, None] & (k < N)[None, :], other=0.0)
        b = tl.load(right_ptr + base + j[None, :] * N + k[:, None], mask=(j < N)[None, :] & (k < N)[:, None], other=0.0)
        acc = tl.dot(a, b, acc)
    ok = (i < N)[:, None] & (j < N)[None, :]
    tl.store(out_ptr + base + i[:, None] * N + j[None, :], acc.to(tl.float16), mask=ok)


@triton.jit
def finish(
    p_ptr, gate_ptr, weight_ptr, bias_ptr, w_ptr, y_ptr, T, D, area, C: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr
):
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    c = tl.arange(0, C)
    ok = (t < T)[None, :]
    at = (t // area).to(tl.int64)[None, :] * C * area + c[:, None] * area + (t % area)[None, :]
    p = tl.load(p_ptr + at, mask=ok, other=0.0).to(tl.float32)
    p -= (tl.sum(p, axis=0) / C)[None, :]
    scale = 1.0 / tl.sqrt(tl.sum(p * p, axis=0) / C + 1e-5)
    p = p * scale[None, :] * tl.load(weight_ptr + c)[:, None] + tl.load(bias_ptr + c)[:, None]
    p = (p * tl.load(gate_ptr + at, mask=ok, other=0.0).to(tl.float32)).to(tl.float16)
    rows = tl.trans(p)
    for start in range(0, D, BD):
        d = start + tl.arange(0, BD)
        w = tl.load(w_ptr + d[None, :] * C + c[:, None], mask=(d < D)[None, :], other=0.0).to(tl.float16)
        y = tl.dot(rows, w)
        tl.store(y_ptr + t.to(tl.int64)[:, None] * D + d[None, :], y, mask=(t < T)[:, None] & (d < D)[None, :])


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
    normal = torch.empty((tokens, d), device=x.device, dtype=torch.float16)
    left = torch.empty((b, HIDDEN, n, n), device=x.device, dtype=torch.float16)
    right = torch.empty_like(left)
    gate = torch.empty_like(left)
    product = torch.empty_like(left)
    y = torch.empty_like(x)
    wide = triton.next_power_of_2(d)
    normalise[(triton.cdiv(tokens, 8),)](x, norm_weight, norm_bias, normal, tokens, d, BR=8, BD=wide, num_warps=4)
    grid = (triton.cdiv(tokens, 64),)
    sizes = {"C": HIDDEN, "BT": 64, "BK": 32, "num_warps": 8, "num_stages": 3}
    project[grid](normal, left_weight, left_gate_weight, mask, left, tokens, d, area, GATED=True, **sizes)
    project[grid](normal, right_weight, right_gate_weight, mask, right, tokens, d, area, GATED=True, **sizes)
    project[grid](normal, out_gate_weight, out_gate_weight, mask, gate, tokens, d, area, GATED=False, **sizes)
    tiles = (triton.cdiv(n, 128), triton.cdiv(n, 128), b * HIDDEN)
    triangle[tiles](left, right, product, n, BI=128, BJ=128, BK=32, num_warps=8, num_stages=3)
    finish[grid](
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
        BT=64,
        BD=32,
        num_warps=4,
    )
    return y
