"""Stretches of 256 tokens in parallel, each lane of a tile following the page table itself; a second kernel joins."""

import math

import torch
import triton
import triton.language as tl

SPAN = 256


@triton.jit
def stretch(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    len_ptr,
    part_ptr,
    top_ptr,
    sum_ptr,
    scale,
    H,
    D,
    width,
    page_size,
    pieces,
    SPAN: tl.constexpr,
    BT: tl.constexpr,
    BD: tl.constexpr,
):
    head = tl.program_id(0)
    piece = tl.program_id(1)
    batch = tl.program_id(2)
    length = tl.load(len_ptr + batch)
    d = tl.arange(0, BD)
    row = batch * H + head
    slot = row * pieces + piece
    q = tl.load(q_ptr + row * D + d, mask=d < D, other=0.0).to(tl.float32) * scale
    top = -1.0e30
    total = 0.0
    acc = tl.zeros((BD,), dtype=tl.float32)
    stop = tl.minimum(length, piece * SPAN + SPAN)
    for start in range(piece * SPAN, stop, BT):
        t = start + tl.arange(0, BT)
        live = t < stop
        page = tl.load(table_ptr + batch * width + t // page_size, mask=live, other=0).to(tl.int64)
        at = ((page * page_size + t % page_size) * H + head) * D
        ok = live[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + at[:, None] + d[None, :], mask=ok, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + at[:, None] + d[None, :], mask=ok, other=0.0).to(tl.float32)
        s = tl.where(live, tl.sum(k * q[None, :], axis=1), -1.0e30)
        new_top = tl.maximum(top, tl.max(s, axis=0))
        keep = tl.exp(top - new_top)
        p = tl.where(live, tl.exp(s - new_top), 0.0)
        acc = acc * keep + tl.sum(p[:, None] * v, axis=0)
        total = total * keep + tl.sum(p, axis=0)
        top = new_top
    tl.store(part_ptr + slot * D + d, acc, mask=d < D)
    tl.store(top_ptr + slot, top)
    tl.store(sum_ptr + slot, total)


@triton.jit
def join(part_ptr, top_ptr, sum_ptr, o_ptr, D, pieces, BP: tl.constexpr, BD: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BD)
    p = tl.arange(0, BP)
    tops = tl.load(top_ptr + row * pieces + p, mask=p < pieces, other=-1.0e30)
    sums = tl.load(sum_ptr + row * pieces + p, mask=p < pieces, other=0.0)
    share = tl.exp(tops - tl.max(tops, axis=0))
    at = (row * pieces + p[:, None]) * D + d[None, :]
    part = tl.load(part_ptr + at, mask=(p < pieces)[:, None] & (d < D)[None, :], other=0.0)
    out = tl.sum(part * share[:, None], axis=0) / tl.sum(sums * share, axis=0)
    tl.store(o_ptr + row * D + d, out.to(o_ptr.dtype.element_ty), mask=d < D)


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    width, page_size = page_table.shape[1], k_pages.shape[1]
    pieces = triton.cdiv(width * page_size, SPAN)
    part = torch.empty((b * h, pieces, d), device=q.device, dtype=torch.float32)
    top = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    total = torch.empty((b * h, pieces), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    wide = triton.next_power_of_2(d)
    stretch[(h, pieces, b)](
        q,
        k_pages,
        v_pages,
        page_table,
        context_lengths,
        part,
        top,
        total,
        1.0 / math.sqrt(d),
        h,
        d,
        width,
        page_size,
        pieces,
        SPAN=SPAN,
        BT=32,
        BD=wide,
        num_warps=4,
        num_stages=3,
    )
    join[(b * h,)](part, top, total, o, d, pieces, BP=triton.next_power_of_2(pieces), BD=wide, num_warps=4)
    return o
