"""The counting pass also ranks each item in its row; after a scan every row sums its bucket in tiles of items."""

import torch
import triton
import triton.language as tl


@triton.jit
def tally(index_ptr, counts_ptr, rank_ptr, items, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < items
    row = tl.load(index_ptr + i, mask=ok, other=0)
    rank = tl.atomic_add(counts_ptr + row, 1, mask=ok)
    tl.store(rank_ptr + i, rank, mask=ok)


@triton.jit
def scan(counts_ptr, begin_ptr, rows, BLOCK: tl.constexpr):
    carry = 0
    for start in range(0, rows, BLOCK):
        r = start + tl.arange(0, BLOCK)
        own = tl.load(counts_ptr + r, mask=r < rows, other=0)
        tl.store(begin_ptr + r, carry + tl.cumsum(own, axis=0) - own, mask=r < rows)
        carry += tl.sum(own, axis=0)


@triton.jit
def fill(index_ptr, begin_ptr, rank_ptr, list_ptr, items, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < items
    row = tl.load(index_ptr + i, mask=ok, other=0)
    at = tl.load(begin_ptr + row, mask=ok, other=0) + tl.load(rank_ptr + i, mask=ok, other=0)
    tl.store(list_ptr + at, i, mask=ok)


@triton.jit
def gather(source_ptr, counts_ptr, begin_ptr, list_ptr, sums_ptr, D, BI: tl.constexpr, BD: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BD)
    begin = tl.load(begin_ptr + row)
    count = tl.load(counts_ptr + row)
    acc = tl.zeros((BD,), dtype=tl.float32)
    for start in range(0, count, BI):
        s = start + tl.arange(0, BI)
        item = tl.load(list_ptr + begin + s, mask=s < count, other=0).to(tl.int64)
        ok = (s < count)[:, None] & (d < D)[None, :]
        acc += tl.sum(tl.load(source_ptr + item[:, None] * D + d[None, :], mask=ok, other=0.0), axis=0)
    tl.store(sums_ptr + row * D + d, acc, mask=d < D)


def run(source, index, rows):
    items, dim = source.shape
    sums = torch.empty((rows, dim), device=source.device, dtype=torch.float32)
    counts = torch.zeros((rows,), device=source.device, dtype=torch.int32)
    begin = torch.empty((rows,), device=source.device, dtype=torch.int32)
    rank = torch.empty((items,), device=source.device, dtype=torch.int32)
    order = torch.empty((items,), device=source.device, dtype=torch.int32)
    blocks = (triton.cdiv(items, 512),)
    tally[blocks](index, counts, rank, items, BLOCK=512, num_warps=4)
    scan[(1,)](counts, begin, rows, BLOCK=4096, num_warps=16)
    fill[blocks](index, begin, rank, order, items, BLOCK=512, num_warps=4)
    gather[(rows,)](source, counts, begin, order, sums, dim, BI=8, BD=triton.next_power_of_2(dim), num_warps=2)
    return sums
