import torch
import triton
import triton.language as tl


<%% include "sequence/delta/templates/chunk_rows.py" %%>



@triton.jit
def output_part(q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, chunk, part, part_v, chunks, heads, scale, K: tl.constexpr,
                V: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    head = chunk % heads
    n = chunk // heads
    token = tl.cast(n, tl.int64) * 64
    keys = token * heads * K + head * K
    values = token * heads * V + head * V
    row = part * ROWS + tl.arange(0, ROWS)
    other = tl.arange(0, 64)
    g = tl.load(g_ptr + (token + row) * heads + head)
    q = tl.load(q_ptr + chunk_rows(keys, row, heads, K, 0, K))
    state = tl.load(h_ptr + tl.cast(chunk, tl.int64) * K * V + tl.arange(0, K)[:, None] * V
                    + (part_v * COLS + tl.arange(0, COLS))[None, :])
%% if scaling == "before"
    total = tl.dot(q * tl.exp(g)[:, None], state, input_precision="${precision}")
%% else
    total = tl.dot(q, state, input_precision="${precision}") * tl.exp(g)[:, None]
%% endif
%% if inner == "whole"
    k = tl.load(k_ptr + chunk_rows(keys, other, heads, K, 0, K))
    v = tl.load(v_ptr + chunk_rows(values, other, heads, V, part_v * COLS, COLS))
    g_other = tl.load(g_ptr + (token + other) * heads + head)
    scores = tl.dot(q, tl.trans(k), input_precision="${precision}")
    gap = g[:, None] - g_other[None, :]
    scores = tl.where(row[:, None] >= other[None, :], scores * tl.exp(tl.minimum(gap, 0.0)), 0.0)
    total += tl.dot(scores, v, input_precision="${precision}")
%% else
    for start in range(0, (part + 1) * ROWS, 16):
        near = start + tl.arange(0, 16)
        k = tl.load(k_ptr + chunk_rows(keys, near, heads, K, 0, K))
        v = tl.load(v_ptr + chunk_rows(values, near, heads, V, part_v * COLS, COLS))
        g_near = tl.load(g_ptr + (token + near) * heads + head)
        scores = tl.dot(q, tl.trans(k), input_precision="${precision}")
        gap = g[:, None] - g_near[None, :]
        scores = tl.where(row[:, None] >= near[None, :], scores * tl.exp(tl.minimum(gap, 0.0)), 0.0)
        total += tl.dot(scores, v, input_precision="${precision}")
%% endif
    tl.store(o_ptr + chunk_rows(values, row, heads, V, part_v * COLS, COLS), total * scale)


@triton.jit
def output_kernel(q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, chunks, heads, scale, K: tl.constexpr, V: tl.constexpr,
                  ROWS: tl.constexpr, COLS: tl.constexpr):
%% if walk == "grid"
    output_part(q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, tl.program_id(0), tl.program_id(1), tl.program_id(2), chunks,
                heads, scale, K, V, ROWS, COLS)
%% else
    across: tl.constexpr = (64 // ROWS) * (V // COLS)
    for tile in range(tl.program_id(0), chunks * across, tl.num_programs(0)):
        inner = tile % across
        output_part(q_ptr, k_ptr, v_ptr, h_ptr, g_ptr, o_ptr, tile // across, inner % (64 // ROWS),
                    inner // (64 // ROWS), chunks, heads, scale, K, V, ROWS, COLS)
%% endif


def run(q, k, v, h, g):
    batch, length, heads, width = q.shape
    wide = v.shape[3]
    o = torch.empty_like(v)
    chunks = batch * (length // 64) * heads
%% if walk == "grid"
    grid = (chunks, ${64 // rows}, wide // ${cols})
%% else
    grid = (min(chunks * ${64 // rows} * (wide // ${cols}), 132 * ${waves}),)
%% endif
    output_kernel[grid](
        q, k, v, h, g, o, chunks, heads, width**-0.5, K=width, V=wide, ROWS=${rows}, COLS=${cols}, num_warps=${warps},
        num_stages=1
    )
    return o
