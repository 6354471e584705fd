"""Stretches of the cache in parallel, each with its own maximum; a second kernel combines them."""

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
    top_ptr,
    sum_ptr,
    scale,
    L,
    D,
    pieces,
    SPAN: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    piece = tl.program_id(1)
    d = tl.arange(0, BD)
    q = tl.load(q_ptr + head * D + d, mask=d < D, other=0.0).to(tl.float32)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros((BD,), dtype=tl.float32)
    for off in range(0, SPAN, BT):
        t = piece * SPAN + off + tl.arange(0, BT)
        ok = (t < L)[:, None] & (d < D)[None, :]
        at = head * L * D + t[:, None] * D + d[None, :]
        k = tl.load(k_ptr + at, mask=ok, other=0.0).to(tl.float32)
        s = tl.where(t < L, tl.sum(k * q[None, :], axis=1) * scale, -1.0e30)
        new_top = tl.maximum(top, tl.max(s, axis=0))
        p = tl.where(t < L, tl.exp(s - new_top), 0.0)
        keep = tl.exp(top - new_top)
        v = tl.load(v_ptr + at, mask=ok, other=0.0).to(tl.float32)
        acc = acc * keep + tl.sum(p[:, None] * v, axis=0)
        total = total * keep + tl.sum(p, axis=0)
        top = new_top
    slot = head * pieces + piece
    tl.store(acc_ptr + slot * D + d, acc, mask=d < D)
    tl.store(top_ptr + slot, top)
    tl.store(sum_ptr + slot, total)


@triton.jit
def combine(acc_ptr, top_ptr, sum_ptr, o_ptr, D, pieces, BP: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(0)
    d = tl.arange(0, BD)
    p = tl.arange(0, BP)
    tops = tl.load(top_ptr + head * pieces + p, mask=p < pieces, other=-float("inf"))
    sums = tl.load(sum_ptr + head * pieces + p, mask=p < pieces, other=0.0)
    share = tl.exp(tops - tl.max(tops, axis=0))
    accs = tl.load(
        acc_ptr + (head * pieces + p[:, None]) * D + d[None, :],
        mask=(p < pieces)[:, None] & (d < D)[None, :],
        other=0.0,
    )
    out = tl.sum(accs * share[:, None], axis=0) / tl.sum(sums * share, axis=0)
    tl.store(o_ptr + head * D + d, out.to(o_ptr.dtype.element_ty), mask=d < D)


def run(q, k, v):
    b, h, d = q.shape
    length = k.shape[2]
    pieces = triton.cdiv(length, SPAN)
    acc = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    top = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    total = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    wide = triton.next_power_of_2(d)
    stretch[(b * h, pieces)](
        q, k, v, acc, top, total, 1.0 / math.sqrt(d), length, d, pieces, SPAN=SPAN, BT=32, BD=wide, num_warps=4
    )
    combine[(b * h,)](acc, top, total, o, d, pieces, BP=triton.next_power_of_2(pieces), BD=wide, num_warps=4)
    return o
