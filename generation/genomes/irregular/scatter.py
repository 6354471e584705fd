# Rows added into indexed places: atomics, or lists of items per row.
# family scatter_triton for scatter_add
# shape method = "row", "tile", "flat", "persistent", "lists"
# shape zero = "torch", "kernel"
# pick block = 32, 64, 128
# pick items = 4, 8, 16, 32
# pick count_block = 128, 256, 512, 1024
# pick warps = 1, 2, 4, 8
# refuse method == "lists" and (items != 8 or zero != "torch"): lists need neither zeros nor items
# refuse method != "lists" and count_block != 256: count_block belongs to lists

import torch
import triton
import triton.language as tl


%% if zero == "kernel"
@triton.jit
def zero_kernel(out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + place, tl.zeros((BLOCK,), tl.float32), mask=place < count)


%% endif
%% if method == "lists"
@triton.jit
def count_kernel(index_ptr, counts_ptr, items, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = place < items
    row = tl.load(index_ptr + place, mask=known, other=0)
    tl.atomic_add(counts_ptr + row, tl.full((BLOCK,), 1, tl.int32), mask=known)


@triton.jit
def starts_kernel(counts_ptr, starts_ptr, cursor_ptr, rows, BLOCK: tl.constexpr):
    total = 0
    for first in range(0, rows, BLOCK):
        place = first + tl.arange(0, BLOCK)
        counts = tl.load(counts_ptr + place, mask=place < rows, other=0)
        ends = tl.cumsum(counts, 0) + total
        tl.store(starts_ptr + place, ends - counts, mask=place < rows)
        tl.store(cursor_ptr + place, ends - counts, mask=place < rows)
        total += tl.sum(counts, 0)


@triton.jit
def fill_kernel(index_ptr, cursor_ptr, lists_ptr, items, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = place < items
    row = tl.load(index_ptr + place, mask=known, other=0)
    slot = tl.atomic_add(cursor_ptr + row, tl.full((BLOCK,), 1, tl.int32), mask=known)
    tl.store(lists_ptr + slot, place, mask=known)


@triton.jit
def sum_kernel(source_ptr, starts_ptr, counts_ptr, lists_ptr, out_ptr, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < dim
    start = tl.load(starts_ptr + row)
    count = tl.load(counts_ptr + row)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(count):
        item = tl.load(lists_ptr + start + step).to(tl.int64)
        total += tl.load(source_ptr + item * dim + cols, mask=inside, other=0.0)
    tl.store(out_ptr + row.to(tl.int64) * dim + cols, total, mask=inside)
%% else
@triton.jit
def scatter_kernel(source_ptr, index_ptr, out_ptr, items, dim, BLOCK: tl.constexpr, ITEMS: tl.constexpr):
%% if method == "row"
    for step in range(ITEMS):
        item = tl.program_id(0).to(tl.int64) * ITEMS + step
        if item < items:
            row = tl.load(index_ptr + item)
            for start in range(0, dim, BLOCK):
                cols = start + tl.arange(0, BLOCK)
                inside = cols < dim
                values = tl.load(source_ptr + item * dim + cols, mask=inside, other=0.0)
                tl.atomic_add(out_ptr + row * dim + cols, values, mask=inside, sem="relaxed")
%% elif method == "tile"
    item = tl.program_id(0).to(tl.int64) * ITEMS + tl.arange(0, ITEMS)
    row = tl.load(index_ptr + item, mask=item < items, other=0)
    for start in range(0, dim, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (item < items)[:, None] & (cols < dim)[None, :]
        values = tl.load(source_ptr + item[:, None] * dim + cols[None, :], mask=inside, other=0.0)
        tl.atomic_add(out_ptr + row[:, None] * dim + cols[None, :], values, mask=inside, sem="relaxed")
%% elif method == "flat"
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < items.to(tl.int64) * dim
    row = tl.load(index_ptr + place // dim, mask=inside, other=0)
    values = tl.load(source_ptr + place, mask=inside, other=0.0)
    tl.atomic_add(out_ptr + row * dim + place % dim, values, mask=inside, sem="relaxed")
%% else
    for item in range(tl.program_id(0), items, tl.num_programs(0)):
        row = tl.load(index_ptr + item)
        for start in range(0, dim, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            inside = cols < dim
            values = tl.load(source_ptr + tl.cast(item, tl.int64) * dim + cols, mask=inside, other=0.0)
            tl.atomic_add(out_ptr + row * dim + cols, values, mask=inside, sem="relaxed")
%% endif
%% endif


def run(source, index, rows):
    items, dim = source.shape
%% if method == "lists"
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    counts = torch.zeros(rows, dtype=torch.int32, device=source.device)
    starts = torch.empty(rows, dtype=torch.int32, device=source.device)
    cursor = torch.empty(rows, dtype=torch.int32, device=source.device)
    lists = torch.empty(items, dtype=torch.int32, device=source.device)
    blocks = (triton.cdiv(items, ${count_block}),)
    count_kernel[blocks](index, counts, items, BLOCK=${count_block}, num_warps=4)
    starts_kernel[(1,)](counts, starts, cursor, rows, BLOCK=4096, num_warps=8)
    fill_kernel[blocks](index, cursor, lists, items, BLOCK=${count_block}, num_warps=4)
    grid = (rows, triton.cdiv(dim, ${block}))
    sum_kernel[grid](source, starts, counts, lists, out, dim, BLOCK=${block}, num_warps=${warps})
%% else
%% if zero == "kernel"
    out = torch.empty((rows, dim), dtype=torch.float32, device=source.device)
    zero_kernel[(triton.cdiv(rows * dim, 1024),)](out, rows * dim, BLOCK=1024)
%% else
    out = torch.zeros((rows, dim), dtype=torch.float32, device=source.device)
%% endif
%% if method == "flat"
    grid = (triton.cdiv(items * dim, ${block * items}),)
    scatter_kernel[grid](source, index, out, items, dim, BLOCK=${block * items}, ITEMS=1, num_warps=${warps})
%% elif method == "persistent"
    grid = (132 * ${items},)
    scatter_kernel[grid](source, index, out, items, dim, BLOCK=${block}, ITEMS=1, num_warps=${warps})
%% else
    grid = (triton.cdiv(items, ${items}),)
    scatter_kernel[grid](source, index, out, items, dim, BLOCK=${block}, ITEMS=${items}, num_warps=${warps})
%% endif
%% endif
    return out
