# A paged int8 cache, collected and dequantised.
# family dequant_triton for paged_kv_dequant
# shape walk = "page", "lines", "flat", "stride", "token"
# shape collect = "inside", "separate"
# pick rows = 1, 2, 4, 8, 16, 32, 64
# pick warps = 1, 2, 4, 8
# pick waves = 2, 8, 16
# refuse walk != "stride" and waves != 8: waves belong to the grid stride
# refuse rows * 128 > warps * 32 * 128: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def dequant_kernel(pages_ptr, scales_ptr, table_ptr, out_ptr, tables, heads, rows, D: tl.constexpr, ROWS: tl.constexpr):
    dims = tl.arange(0, D)
%% if walk == "page"
    entry = tl.program_id(0)
    page = tl.load(table_ptr + entry).to(tl.int64)
    count = 16 * heads
    for start in range(0, count, ROWS):
        line = start + tl.arange(0, ROWS)
        known = line < count
        scale = tl.load(scales_ptr + page * count + line, mask=known, other=0.0)
        place = line[:, None] * D + dims[None, :]
        values = tl.load(pages_ptr + page * count * D + place, mask=known[:, None], other=0)
        result = (values.to(tl.float32) * scale[:, None]).to(tl.bfloat16)
        tl.store(out_ptr + entry.to(tl.int64) * count * D + place, result, mask=known[:, None])
%% else
%% if walk == "stride"
    for first in range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS):
        line = first + tl.arange(0, ROWS)
        known = line < rows
        count = 16 * heads
        page = tl.load(table_ptr + line // count, mask=known, other=0).to(tl.int64)
        source = page * count + line % count
        scale = tl.load(scales_ptr + source, mask=known, other=0.0)
        values = tl.load(pages_ptr + source[:, None] * D + dims[None, :], mask=known[:, None], other=0)
        result = (values.to(tl.float32) * scale[:, None]).to(tl.bfloat16)
        tl.store(out_ptr + line.to(tl.int64)[:, None] * D + dims[None, :], result, mask=known[:, None])
%% elif walk == "lines"
    line = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = line < rows
    count = 16 * heads
    page = tl.load(table_ptr + line // count, mask=known, other=0).to(tl.int64)
    source = page * count + line % count
    scale = tl.load(scales_ptr + source, mask=known, other=0.0)
    values = tl.load(pages_ptr + source[:, None] * D + dims[None, :], mask=known[:, None], other=0)
    result = (values.to(tl.float32) * scale[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + line.to(tl.int64)[:, None] * D + dims[None, :], result, mask=known[:, None])
%% elif walk == "flat"
    place = tl.program_id(0).to(tl.int64) * (ROWS * D) + tl.arange(0, ROWS * D)
    known = place < rows.to(tl.int64) * D
    line = place // D
    count = 16 * heads
    page = tl.load(table_ptr + line // count, mask=known, other=0).to(tl.int64)
    source = page * count + line % count
    scale = tl.load(scales_ptr + source, mask=known, other=0.0)
    values = tl.load(pages_ptr + source * D + place % D, mask=known, other=0)
    tl.store(out_ptr + place, (values.to(tl.float32) * scale).to(tl.bfloat16), mask=known)
%% else
    entry = tl.program_id(0)
    spot = tl.program_id(1)
    page = tl.load(table_ptr + entry).to(tl.int64)
    for start in range(0, heads, ROWS):
        line = spot * heads + start + tl.arange(0, ROWS)
        known = start + tl.arange(0, ROWS) < heads
        scale = tl.load(scales_ptr + page * 16 * heads + line, mask=known, other=0.0)
        place = line[:, None] * D + dims[None, :]
        values = tl.load(pages_ptr + page * 16 * heads * D + place, mask=known[:, None], other=0)
        result = (values.to(tl.float32) * scale[:, None]).to(tl.bfloat16)
        tl.store(out_ptr + entry.to(tl.int64) * 16 * heads * D + place, result, mask=known[:, None])
%% endif
%% endif


%% if collect == "separate"
@triton.jit
def source_kernel(table_ptr, sources_ptr, tables, BLOCK: tl.constexpr):
    entry = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(sources_ptr + entry, tl.load(table_ptr + entry, mask=entry < tables, other=0), mask=entry < tables)


%% endif
def run(pages, scales, page_table):
    batch, width = page_table.shape
    heads, dim = pages.shape[2], pages.shape[3]
    out = torch.empty((batch, width * 16, heads, dim), dtype=torch.bfloat16, device=pages.device)
    tables = batch * width
    rows = tables * 16 * heads
    table = page_table
%% if collect == "separate"
    table = torch.empty_like(page_table)
    source_kernel[(triton.cdiv(tables, 256),)](page_table, table, tables, BLOCK=256)
%% endif
%% if walk == "page"
    grid = (tables,)
%% elif walk == "stride"
    grid = (min(${waves} * 132, triton.cdiv(rows, ${rows})),)
%% elif walk == "token"
    grid = (tables, 16)
%% else
    grid = (triton.cdiv(rows, ${rows}),)
%% endif
    dequant_kernel[grid](pages, scales, table, out, tables, heads, rows, D=dim, ROWS=${rows}, num_warps=${warps})
    return out
