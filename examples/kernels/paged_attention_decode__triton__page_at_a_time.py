"""One program a head walks its sequence page by page with a running maximum and sum."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def decode(q_ptr, k_ptr, v_ptr, table_ptr, len_ptr, o_ptr, scale, H, D, width, PAGE: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(0)
    batch = tl.program_id(1)
    d = tl.arange(0, BD)
    place = tl.arange(0, PAGE)
    row = batch * H + head
    q = tl.load(q_ptr + row * D + d, mask=d < D, other=0.0).to(tl.float32) * scale
    length = tl.load(len_ptr + batch)
    top = -float("inf")
    total = 0.0
    acc = tl.zeros((BD,), dtype=tl.float32)
    for number in range(0, tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + batch * width + number).to(tl.int64)
        live = number * PAGE + place < length
        at = ((page * PAGE + place[:, None]) * H + head) * D + d[None, :]
        ok = live[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + at, mask=ok, other=0.0).to(tl.float32)
        v = tl.load(v_ptr + at, mask=ok, other=0.0).to(tl.float32)
        s = tl.where(live, tl.sum(k * q[None, :], axis=1), -float("inf"))
        new_top = tl.maximum(top, tl.max(s, axis=0))
        keep = tl.exp(top - new_top)
        p = tl.exp(s - new_top)
        acc = acc * keep + tl.sum(p[:, None] * v, axis=0)
        total = total * keep + tl.sum(p, axis=0)
        top = new_top
    tl.store(o_ptr + row * D + d, (acc / total).to(o_ptr.dtype.element_ty), mask=d < D)


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    o = torch.empty_like(q)
    decode[(h, b)](
        q,
        k_pages,
        v_pages,
        page_table,
        context_lengths,
        o,
        1.0 / math.sqrt(d),
        h,
        d,
        page_table.shape[1],
        PAGE=k_pages.shape[1],
        BD=triton.next_power_of_2(d),
        num_warps=4,
    )
    return o
