# Embedding lookups.
# family gather_triton for embedding_gather
# shape walk = "row", "grid", "tile", "flat", "persistent"
# shape word = "int16", "int32", "int64"
# shape hint = "", ', eviction_policy="evict_first"', ', cache_modifier=".cg"'
# pick block = 64, 128, 256, 512, 1024, 2048
# pick rows = 4, 8, 16
# pick waves = 4, 8, 16
# pick warps = 1, 2, 4, 8
# refuse walk == "tile" and block * rows > 16384: tile too large for registers
# refuse walk != "tile" and rows != 4: rows belong to the tile walk
# refuse walk != "persistent" and waves != 4: waves belong to the persistent walk

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(ids_ptr, table_ptr, out_ptr, tokens, dim, BLOCK: tl.constexpr, ROWS: tl.constexpr):
%% if walk == "row"
    row = tl.program_id(0)
    source = tl.load(ids_ptr + row)
    for start in range(0, dim, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < dim
        values = tl.load(table_ptr + source * dim + cols, mask=inside, other=0${hint})
        tl.store(out_ptr + row.to(tl.int64) * dim + cols, values, mask=inside)
%% elif walk == "grid"
    row = tl.program_id(0)
    source = tl.load(ids_ptr + row)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = cols < dim
    values = tl.load(table_ptr + source * dim + cols, mask=inside, other=0${hint})
    tl.store(out_ptr + row.to(tl.int64) * dim + cols, values, mask=inside)
%% elif walk == "tile"
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = rows < tokens
    source = tl.load(ids_ptr + rows, mask=known, other=0)
    for start in range(0, dim, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = known[:, None] & (cols < dim)[None, :]
        values = tl.load(table_ptr + source[:, None] * dim + cols[None, :], mask=inside, other=0${hint})
        tl.store(out_ptr + rows.to(tl.int64)[:, None] * dim + cols[None, :], values, mask=inside)
%% elif walk == "flat"
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < tokens.to(tl.int64) * dim
    row = place // dim
    source = tl.load(ids_ptr + row, mask=inside, other=0)
    values = tl.load(table_ptr + source * dim + place % dim, mask=inside, other=0${hint})
    tl.store(out_ptr + place, values, mask=inside)
%% else
    for row in range(tl.program_id(0), tokens, tl.num_programs(0)):
        source = tl.load(ids_ptr + row)
        for start in range(0, dim, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            inside = cols < dim
            values = tl.load(table_ptr + source * dim + cols, mask=inside, other=0${hint})
            tl.store(out_ptr + tl.cast(row, tl.int64) * dim + cols, values, mask=inside)
%% endif


def run(ids, table):
    tokens = ids.numel()
    out = torch.empty((tokens, table.shape[1]), dtype=table.dtype, device=table.device)
%% if word == "int16"
    source, target = table, out
%% else
    source, target = table.view(torch.${word}), out.view(torch.${word})
%% endif
    dim = source.shape[1]
%% if walk == "row"
    grid = (tokens,)
%% elif walk == "grid"
    grid = (tokens, triton.cdiv(dim, ${block}))
%% elif walk == "tile"
    grid = (triton.cdiv(tokens, ${rows}),)
%% elif walk == "flat"
    grid = (triton.cdiv(tokens * dim, ${block}),)
%% else
    grid = (min(tokens, ${waves} * 132),)
%% endif
    gather_kernel[grid](ids, source, target, tokens, dim, BLOCK=${block}, ROWS=${rows}, num_warps=${warps})
    return out
