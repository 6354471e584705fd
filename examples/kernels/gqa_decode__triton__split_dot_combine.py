"""Stretches of the cache in parallel, the query group as one small matrix product; a second kernel joins them."""

import math

import torch
import triton
import triton.language as tl

SPAN = 512


@triton.jit
def stretch(
    q_ptr,
    k_ptr,
    v_ptr,
    acc_ptr,
    lse_ptr,
    scale,
    L,
    KV,
    D,
    G,
    pieces,
    SPAN: tl.constexpr,
    BG: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    piece = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    batch = row // KV
    kv = row % KV
    g = tl.arange(0, BG)
    d = tl.arange(0, BD)
    q_ok = (g < G)[:, None] & (d < D)[None, :]
    q = tl.load(q_ptr + (row * G + g)[:, None] * D + d[None, :], mask=q_ok, other=0.0)
    top = tl.full((BG,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((BG,), dtype=tl.float32)
    acc = tl.zeros((BG, BD), dtype=tl.float32)
    for off in range(0, SPAN, BT):
        t = piece * SPAN + off + tl.arange(0, BT)
        at = ((batch * L + t[:, None]) * KV + kv) * D + d[None, :]
        ok = (t < L)[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + at, mask=ok, other=0.0)
        v = tl.load(v_ptr + at, mask=ok, other=0.0)
        s = tl.dot(q, tl.trans(k)) * (scale * 1.4426950408889634)
        s = tl.where((t < L)[None, :], s, -1.0e30)
        new_top = tl.maximum(top, tl.max(s, axis=1))
        keep = tl.exp2(top - new_top)
        p = tl.where((t < L)[None, :], tl.exp2(s - new_top[:, None]), 0.0)
        acc = acc * keep[:, None] + tl.dot(p.to(v.dtype), v)
        total = total * keep + tl.sum(p, axis=1)
        top = new_top
    slot = (row * G + g) * pieces + piece
    tl.store(acc_ptr + slot[:, None] * D + d[None, :], acc / total[:, None], mask=q_ok)
    tl.store(lse_ptr + slot, top + tl.log2(total), mask=g < G)


@triton.jit
def combine(acc_ptr, lse_ptr, o_ptr, D, pieces, BP: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, BD)
    p = tl.arange(0, BP)
    lse = tl.load(lse_ptr + head * pieces + p, mask=p < pieces, other=-float("inf"))
    share = tl.exp2(lse - tl.max(lse, axis=0))
    at = (head * pieces + p[:, None]) * D + d[None, :]
    part = tl.load(acc_ptr + at, mask=(p < pieces)[:, None] & (d < D)[None, :], other=0.0)
    out = tl.sum(part * share[:, None], axis=0) / tl.sum(share, axis=0)
    tl.store(o_ptr + head * D + d, out.to(o_ptr.dtype.element_ty), mask=d < D)


def run(q, k, v):
    b, h, d = q.shape
    length, kv = k.shape[1], k.shape[2]
    group = h // kv
    pieces = triton.cdiv(length, SPAN)
    part = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    lse = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    wide = triton.next_power_of_2(d)
    stretch[(pieces, b * kv)](
        q,
        k,
        v,
        part,
        lse,
        1.0 / math.sqrt(d),
        length,
        kv,
        d,
        group,
        pieces,
        SPAN=SPAN,
        BG=max(16, triton.next_power_of_2(group)),
        BT=64,
        BD=wide,
        num_warps=4,
        num_stages=3,
    )
    combine[(b * h,)](part, lse, o, d, pieces, BP=triton.next_power_of_2(pieces), BD=wide, num_warps=4)
    return o
