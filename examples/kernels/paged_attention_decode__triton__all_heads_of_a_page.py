"""A page is read whole for every head, as it lies in memory: scores first, then softmax, then added values."""

import math

import torch
import triton
import triton.language as tl


@triton.jit
def scores(
    q_ptr, k_ptr, table_ptr, len_ptr, s_ptr, scale, H, D, width, PAGE: tl.constexpr, BR: tl.constexpr, BD: tl.constexpr
):
    number = tl.program_id(0)
    batch = tl.program_id(1)
    length = tl.load(len_ptr + batch)
    page = tl.load(table_ptr + batch * width + number).to(tl.int64)
    d = tl.arange(0, BD)
    for start in range(0, PAGE * H, BR):
        r = start + tl.arange(0, BR)
        head = r % H
        t = number * PAGE + r // H
        ok = (r < PAGE * H)[:, None] & (d < D)[None, :]
        k = tl.load(k_ptr + (page * PAGE * H + r)[:, None] * D + d[None, :], mask=ok, other=0.0).to(tl.float32)
        q = tl.load(q_ptr + (batch * H + head)[:, None] * D + d[None, :], mask=ok, other=0.0).to(tl.float32)
        s = tl.where(t < length, tl.sum(k * q, axis=1) * scale, -float("inf"))
        tl.store(s_ptr + (batch * H + head) * (width * PAGE) + t, s, mask=r < PAGE * H)


@triton.jit
def softmax(s_ptr, n, BN: tl.constexpr):
    row = tl.program_id(0)
    t = tl.arange(0, BN)
    s = tl.load(s_ptr + row * n + t, mask=t < n, other=-float("inf"))
    p = tl.exp(s - tl.max(s, axis=0))
    tl.store(s_ptr + row * n + t, p / tl.sum(p, axis=0), mask=t < n)


@triton.jit
def values(s_ptr, v_ptr, table_ptr, len_ptr, o_ptr, H, D, width, PAGE: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    batch = tl.program_id(1)
    length = tl.load(len_ptr + batch)
    place = tl.arange(0, PAGE)
    acc = tl.zeros((BC,), dtype=tl.float32)
    # A program owns BC of the H * D output channels, so heads may begin anywhere in it.
    for number in range(0, tl.cdiv(length, PAGE)):
        page = tl.load(table_ptr + batch * width + number).to(tl.int64)
        t = number * PAGE + place
        ok = (t < length)[:, None] & (c < H * D)[None, :]
        p = tl.load(s_ptr + (batch * H + c // D)[None, :] * (width * PAGE) + t[:, None], mask=ok, other=0.0)
        v = tl.load(v_ptr + (page * PAGE + place)[:, None] * (H * D) + c[None, :], mask=ok, other=0.0).to(tl.float32)
        acc += tl.sum(p * v, axis=0)
    tl.store(o_ptr + batch * H * D + c, acc.to(o_ptr.dtype.element_ty), mask=c < H * D)


def run(q, k_pages, v_pages, page_table, context_lengths):
    b, h, d = q.shape
    width, page = page_table.shape[1], k_pages.shape[1]
    n = width * page
    s = torch.empty((b * h, n), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    scores[(width, b)](
        q,
        k_pages,
        page_table,
        context_lengths,
        s,
        1.0 / math.sqrt(d),
        h,
        d,
        width,
        PAGE=page,
        BR=64,
        BD=triton.next_power_of_2(d),
        num_warps=8,
    )
    softmax[(b * h,)](s, n, BN=triton.next_power_of_2(n), num_warps=8)
    values[(triton.cdiv(h * d, 128), b)](
        s, v_pages, page_table, context_lengths, o, h, d, width, PAGE=page, BC=128, num_warps=4
    )
    return o
