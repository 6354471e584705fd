# A matrix scaled by one number, or by one number per row: pure memory traffic.
# family scaling_triton for matmul_scalar, matmul_diagonal
# shape walk = "flat", "flat_stride", "tile", "tile_stride", "row"
# shape unroll = 1, 2, 4
# shape bounds = "masked", "branch"
# shape load = "plain", "evict_first", "cg"
# shape store = "plain", "evict_first", "cs", "wt"
# pick programs = 132, 528, 1056, 2112
# pick rows = 1, 2, 4, 8
# pick block = 128, 256, 512, 1024, 2048, 4096
# pick warps = 1, 2, 4, 8
# refuse "stride" not in walk and programs != 132: only strided walks choose the number of programs
# refuse "tile" not in walk and rows != 1: only tiles have rows
# refuse "tile" in walk and unroll != 1: tiles are not unrolled
# refuse "flat" not in walk and bounds != "masked": only flat walks branch on bounds
# let ahead = programs * rows * block * unroll
# # With fewer elements in flight, memory latency makes a strided grid tens of times slower than the rest.
# refuse "stride" in walk and ahead < 132 * 1024: too few elements in flight
# let held = rows * block // (32 * warps)
# refuse not 1 <= held <= 64: too many or too few elements per thread
# let diagonal = problem == "matmul_diagonal"
# let flat = "flat" in walk
# let scaled = "tl.load(d_ptr + at // COLUMNS)" if diagonal else "s"
# let scaled_masked = "tl.load(d_ptr + at // COLUMNS, mask=at < SIZE)" if diagonal else "s"
# let factor = "d_ptr" if diagonal else "s"
# let load = HINTS[load]
# let store = HINTS[store]

import torch
import triton
import triton.language as tl


@triton.jit
%% if flat
def scale(a_ptr, ${factor}, c_ptr, SIZE, ${"COLUMNS, " if diagonal else ""}BLOCK: tl.constexpr):
%% if walk == "flat_stride"
    for block in range(tl.program_id(0), tl.cdiv(SIZE, BLOCK * ${unroll}), tl.num_programs(0)):
        first = block * BLOCK * ${unroll}
%% else
    first = tl.program_id(0) * BLOCK * ${unroll}
    if first < SIZE:
%% endif
        for u in tl.static_range(${unroll}):
            at = first + u * BLOCK + tl.arange(0, BLOCK)
%% if bounds == "branch"
            if first + u * BLOCK + BLOCK <= SIZE:
                v = tl.load(a_ptr + at${load})
                tl.store(c_ptr + at, v * ${scaled}${store})
            else:
                v = tl.load(a_ptr + at, mask=at < SIZE)
                tl.store(c_ptr + at, v * ${scaled_masked}, mask=at < SIZE)
%% else
            v = tl.load(a_ptr + at, mask=at < SIZE${load})
            tl.store(c_ptr + at, v * ${scaled_masked}, mask=at < SIZE${store})
%% endif
%% elif walk == "row"
def scale(a_ptr, ${factor}, c_ptr, ROWS_TOTAL, COLUMNS, BLOCK: tl.constexpr):
    row = tl.program_id(0)
%% if diagonal
    s = tl.load(d_ptr + row)
%% endif
    for start in range(0, COLUMNS, BLOCK * ${unroll}):
        for u in tl.static_range(${unroll}):
            n = start + u * BLOCK + tl.arange(0, BLOCK)
            at = row * COLUMNS + n
            v = tl.load(a_ptr + at, mask=n < COLUMNS${load})
            tl.store(c_ptr + at, v * s, mask=n < COLUMNS${store})
%% else
def scale(a_ptr, ${factor}, c_ptr, ROWS_TOTAL, COLUMNS, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    across = tl.cdiv(COLUMNS, BLOCK)
%% if walk == "tile_stride"
    for tile in range(tl.program_id(0), tl.cdiv(ROWS_TOTAL, ROWS) * across, tl.num_programs(0)):
%% else
    tile = tl.program_id(0)
    if tile < tl.cdiv(ROWS_TOTAL, ROWS) * across:
%% endif
        m = tile // across * ROWS + tl.arange(0, ROWS)
        n = tile % across * BLOCK + tl.arange(0, BLOCK)
        at = m[:, None] * COLUMNS + n[None, :]
        inside = (m[:, None] < ROWS_TOTAL) & (n[None, :] < COLUMNS)
%% if diagonal
        s = tl.load(d_ptr + m, mask=m < ROWS_TOTAL, other=0.0)[:, None]
%% endif
        v = tl.load(a_ptr + at, mask=inside${load})
        tl.store(c_ptr + at, v * s, mask=inside${store})
%% endif


%% if diagonal
def run(d, b):
    a = b
    s = d
%% else
def run(a, s):
%% endif
    out = torch.empty_like(a)
    rows, columns = a.shape
%% if flat
    size = a.numel()
    blocks = triton.cdiv(size, ${block * unroll})
    scale[(${"min(blocks, %d)" % programs if walk == "flat_stride" else "blocks"},)](
        a, s, out, size, ${"columns, " if diagonal else ""}BLOCK=${block}, num_warps=${warps}
    )
%% elif walk == "row"
    scale[(rows,)](a, s, out, rows, columns, BLOCK=${block}, num_warps=${warps})
%% else
    tiles = triton.cdiv(rows, ${rows}) * triton.cdiv(columns, ${block})
    scale[(${"min(tiles, %d)" % programs if walk == "tile_stride" else "tiles"},)](
        a, s, out, rows, columns, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
%% endif
    return out
