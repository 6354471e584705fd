# Transposes of matrices, alone or in batches.
# family transpose_triton for transpose, permute_4d
# shape move = "tile", "scatter", "gather", "flat"
# shape order = "rows", "columns", "grouped", "persistent"
# pick block_r = 16, 32, 64, 128
# pick block_c = 16, 32, 64, 128
# pick waves = 2, 4, 8, 16
# pick warps = 2, 4, 8
# let size = block_r * block_c
# refuse size > 16384 or size < 512: tile size
# refuse order in ("rows", "columns") and waves != 4: waves belong to the persistent and grouped orders

import torch
import triton
import triton.language as tl


@triton.jit
def move_tile(x_ptr, y_ptr, rows, cols, row_block, col_block, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
%% if move == "flat"
    place = tl.arange(0, BLOCK_R * BLOCK_C)
    r = row_block * BLOCK_R + place % BLOCK_R
    c = col_block * BLOCK_C + place // BLOCK_R
    inside = (r < rows) & (c < cols)
    values = tl.load(x_ptr + r.to(tl.int64) * cols + c, mask=inside, other=0)
    tl.store(y_ptr + c.to(tl.int64) * rows + r, values, mask=inside)
%% else
    r = row_block * BLOCK_R + tl.arange(0, BLOCK_R)
    c = col_block * BLOCK_C + tl.arange(0, BLOCK_C)
%% if move == "gather"
    inside = (c < cols)[:, None] & (r < rows)[None, :]
    values = tl.load(x_ptr + r.to(tl.int64)[None, :] * cols + c[:, None], mask=inside, other=0)
    tl.store(y_ptr + c.to(tl.int64)[:, None] * rows + r[None, :], values, mask=inside)
%% else
    inside = (r < rows)[:, None] & (c < cols)[None, :]
    values = tl.load(x_ptr + r.to(tl.int64)[:, None] * cols + c[None, :], mask=inside, other=0)
%% if move == "scatter"
    tl.store(y_ptr + c.to(tl.int64)[None, :] * rows + r[:, None], values, mask=inside)
%% else
    back = (c < cols)[:, None] & (r < rows)[None, :]
    tl.store(y_ptr + c.to(tl.int64)[:, None] * rows + r[None, :], tl.trans(values), mask=back)
%% endif
%% endif
%% endif


@triton.jit
def transpose_kernel(x_ptr, y_ptr, rows, cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr, GROUP: tl.constexpr):
    batch = tl.program_id(1).to(tl.int64)
    x_ptr += batch * rows * cols
    y_ptr += batch * rows * cols
    row_blocks = tl.cdiv(rows, BLOCK_R)
    col_blocks = tl.cdiv(cols, BLOCK_C)
%% if order == "persistent"
    for tile in range(tl.program_id(0), row_blocks * col_blocks, tl.num_programs(0)):
        move_tile(x_ptr, y_ptr, rows, cols, tile // col_blocks, tile % col_blocks, BLOCK_R, BLOCK_C)
%% elif order == "rows"
    tile = tl.program_id(0)
    move_tile(x_ptr, y_ptr, rows, cols, tile // col_blocks, tile % col_blocks, BLOCK_R, BLOCK_C)
%% elif order == "columns"
    tile = tl.program_id(0)
    move_tile(x_ptr, y_ptr, rows, cols, tile % row_blocks, tile // row_blocks, BLOCK_R, BLOCK_C)
%% else
    tile = tl.program_id(0)
    band = tile // (GROUP * col_blocks)
    height = tl.minimum(row_blocks - band * GROUP, GROUP)
    inner = tile % (GROUP * col_blocks)
    move_tile(x_ptr, y_ptr, rows, cols, band * GROUP + inner % height, inner // height, BLOCK_R, BLOCK_C)
%% endif


def run(x):
%% if problem == "transpose"
    rows, cols = x.shape
    batch = 1
    y = torch.empty((cols, rows), dtype=x.dtype, device=x.device)
%% else
    batch, rows, heads, dim = x.shape
    cols = heads * dim
    y = torch.empty((batch, heads, dim, rows), dtype=x.dtype, device=x.device)
%% endif
    tiles = triton.cdiv(rows, ${block_r}) * triton.cdiv(cols, ${block_c})
%% if order == "persistent"
    grid = (min(tiles, max(1, ${waves} * 132 // batch)), batch)
%% else
    grid = (tiles, batch)
%% endif
    transpose_kernel[grid](
        x, y, rows, cols, BLOCK_R=${block_r}, BLOCK_C=${block_c}, GROUP=${waves}, num_warps=${warps}
    )
    return y
