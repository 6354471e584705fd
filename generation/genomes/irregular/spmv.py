# Sparse matrix times vector: rows, blocks of rows, or entries with segmented sums.
# family spmv_triton for spmv_csr
# shape method = "row", "tile", "tile", "persistent", "products", "entries", "runs"
# pick block = 8, 16, 32, 64, 128
# pick rows = 1, 2, 4, 8, 16, 32
# pick warps = 1, 2, 4, 8
# refuse method in ("entries", "runs") and rows != 4: rows belong to the row walks
# refuse block * rows > 2048 and method in ("tile", "products"): tile too large

import torch
import triton
import triton.language as tl


%% if method == "row"
@triton.jit
def spmv_kernel(starts_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, rows, entries, BLOCK: tl.constexpr,
                ROWS: tl.constexpr):
    for step in range(ROWS):
        row = tl.program_id(0) * ROWS + step
        if row < rows:
            start = tl.load(starts_ptr + row)
            stop = tl.load(starts_ptr + row + 1)
            total = tl.zeros((BLOCK,), tl.float32)
            for first in range(start, stop, BLOCK):
                place = first + tl.arange(0, BLOCK)
                known = place < stop
                column = tl.load(columns_ptr + place, mask=known, other=0)
                value = tl.load(values_ptr + place, mask=known, other=0.0)
                total += value * tl.load(x_ptr + column, mask=known, other=0.0)
            tl.store(y_ptr + row, tl.sum(total, 0))
%% elif method == "tile"
@triton.jit
def spmv_kernel(starts_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, rows, entries, BLOCK: tl.constexpr,
                ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.load(starts_ptr + row, mask=row < rows, other=0)
    stop = tl.load(starts_ptr + row + 1, mask=row < rows, other=0)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, tl.max(stop - start, 0), BLOCK):
        place = (start + first)[:, None] + tl.arange(0, BLOCK)[None, :]
        known = place < stop[:, None]
        column = tl.load(columns_ptr + place, mask=known, other=0)
        value = tl.load(values_ptr + place, mask=known, other=0.0)
        total += value * tl.load(x_ptr + column, mask=known, other=0.0)
    tl.store(y_ptr + row, tl.sum(total, 1), mask=row < rows)
%% elif method == "persistent"
@triton.jit
def spmv_kernel(starts_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, rows, entries, BLOCK: tl.constexpr,
                ROWS: tl.constexpr):
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        start = tl.load(starts_ptr + row)
        stop = tl.load(starts_ptr + row + 1)
        total = tl.zeros((BLOCK,), tl.float32)
        for first in range(start, stop, BLOCK):
            place = first + tl.arange(0, BLOCK)
            known = place < stop
            column = tl.load(columns_ptr + place, mask=known, other=0)
            value = tl.load(values_ptr + place, mask=known, other=0.0)
            total += value * tl.load(x_ptr + column, mask=known, other=0.0)
        tl.store(y_ptr + row, tl.sum(total, 0))
%% elif method == "products"
@triton.jit
def product_kernel(columns_ptr, values_ptr, x_ptr, products_ptr, entries, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = place < entries
    column = tl.load(columns_ptr + place, mask=known, other=0)
    value = tl.load(values_ptr + place, mask=known, other=0.0)
    tl.store(products_ptr + place, value * tl.load(x_ptr + column, mask=known, other=0.0), mask=known)


@triton.jit
def sum_kernel(starts_ptr, products_ptr, y_ptr, rows, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    start = tl.load(starts_ptr + row, mask=row < rows, other=0)
    stop = tl.load(starts_ptr + row + 1, mask=row < rows, other=0)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for first in range(0, tl.max(stop - start, 0), BLOCK):
        place = (start + first)[:, None] + tl.arange(0, BLOCK)[None, :]
        total += tl.load(products_ptr + place, mask=place < stop[:, None], other=0.0)
    tl.store(y_ptr + row, tl.sum(total, 1), mask=row < rows)
%% else
@triton.jit
def join_runs(sum_one, row_one, sum_two, row_two):
    return tl.where(row_one == row_two, sum_one + sum_two, sum_two), row_two


@triton.jit
def spmv_kernel(starts_ptr, columns_ptr, values_ptr, x_ptr, y_ptr, rows, entries, BLOCK: tl.constexpr,
                ROWS: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = place < entries
    # The row of an entry is the last one that starts at or before it.
    low = tl.zeros((BLOCK,), tl.int32)
    high = low + rows
    for step in range(ROWS):
        middle = (low + high + 1) // 2
        reached = (low < high) & (tl.load(starts_ptr + middle, mask=middle < rows, other=2147483647) <= place)
        high = tl.where(reached, high, tl.maximum(low, middle - 1))
        low = tl.where(reached, middle, low)
    column = tl.load(columns_ptr + place, mask=known, other=0)
    value = tl.load(values_ptr + place, mask=known, other=0.0)
    product = value * tl.load(x_ptr + column, mask=known, other=0.0)
%% if method == "entries"
    tl.atomic_add(y_ptr + low, product, mask=known, sem="relaxed")
%% else
    total, row = tl.associative_scan((product, low), 0, join_runs)
    end = tl.load(starts_ptr + low + 1, mask=known, other=0)
    final = known & ((place + 1 == end) | (tl.arange(0, BLOCK) == BLOCK - 1) | (place + 1 == entries))
    tl.atomic_add(y_ptr + low, total, mask=final, sem="relaxed")
%% endif
%% endif


def run(starts, columns, values, x):
    rows = starts.numel() - 1
    entries = columns.numel()
%% if method in ("entries", "runs")
    y = torch.zeros(rows, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(entries, ${block * 8}),)
    spmv_kernel[grid](
        starts, columns, values, x, y, rows, entries, BLOCK=${block * 8}, ROWS=rows.bit_length() + 1, num_warps=${warps}
    )
%% else
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
%% if method == "products"
    products = torch.empty(entries, dtype=torch.float32, device=x.device)
    product_kernel[(triton.cdiv(entries, 1024),)](columns, values, x, products, entries, BLOCK=1024, num_warps=${warps})
    grid = (triton.cdiv(rows, ${rows}),)
    sum_kernel[grid](starts, products, y, rows, BLOCK=${block}, ROWS=${rows}, num_warps=${warps})
%% else
%% if method == "persistent"
    grid = (132 * ${rows} * 4,)
%% else
    grid = (triton.cdiv(rows, ${rows}),)
%% endif
    spmv_kernel[grid](starts, columns, values, x, y, rows, entries, BLOCK=${block}, ROWS=${rows}, num_warps=${warps})
%% endif
%% endif
    return y
