# The gated delta network: chunk states, outputs, and w and u.
%% section states
# family delta_states_triton for gdn_chunk_fwd_h
# shape method = "fused", "fused", "launches"
# shape keys = "direct", "turned"
# shape scaling = "values", "keys"
# shape precision = "ieee", "tf32x3"
# pick cols = 16, 32, 64
# pick rows = 16, 32, 64
# pick warps = 2, 4, 8
# pick stages = 1, 2
# refuse precision == "ieee" and (warps != 8 or cols == 64): exact products unroll into so many instructions that few
#     threads compile for minutes
# refuse method == "launches" and stages != 1: stages belong to the fused loop

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_rows(base, row, heads, width, first_col, COLS: tl.constexpr):
    return base + row[:, None] * heads * width + first_col + tl.arange(0, COLS)[None, :]


%% if method == "fused"
@triton.jit
def state_kernel(k_ptr, w_ptr, u_ptr, g_ptr, h_ptr, v_ptr, length, heads, K: tl.constexpr, V: tl.constexpr,
                 COLS: tl.constexpr, ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1)
    batch = tl.program_id(2)
    chunks = length // 64
    state = tl.zeros((K, COLS), tl.float32)
    wide = tl.arange(0, K)
    for n in range(chunks):
        token = (batch * length + n * 64).to(tl.int64)
        keys = token * heads * K + head * K
        values = token * heads * V + head * V
        slot = ((batch * chunks + n) * heads + head).to(tl.int64) * K * V
        tl.store(h_ptr + slot + wide[:, None] * V + (first + tl.arange(0, COLS))[None, :], state)
        last = tl.load(g_ptr + (token + 63) * heads + head)
        following = state * tl.exp(last)
        for start in range(0, 64, ROWS):
            row = start + tl.arange(0, ROWS)
            w = tl.load(w_ptr + chunk_rows(keys, row, heads, K, 0, K))
            place = chunk_rows(values, row, heads, V, first, COLS)
            fresh = tl.load(u_ptr + place) - tl.dot(w, state, input_precision="${precision}")
            tl.store(v_ptr + place, fresh)
            decay = tl.exp(last - tl.load(g_ptr + (token + row) * heads + head))
%% if keys == "direct"
            k = tl.load(k_ptr + keys + row[None, :] * heads * K + wide[:, None])
%% else
            k = tl.trans(tl.load(k_ptr + chunk_rows(keys, row, heads, K, 0, K)))
%% endif
%% if scaling == "values"
            following += tl.dot(k, fresh * decay[:, None], input_precision="${precision}")
%% else
            following += tl.dot(k * decay[None, :], fresh, input_precision="${precision}")
%% endif
        state = following


%% else
@triton.jit
def fresh_kernel(w_ptr, u_ptr, h_ptr, v_ptr, length, heads, n, K: tl.constexpr, V: tl.constexpr, COLS: tl.constexpr,
                 ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1) % heads
    batch = tl.program_id(1) // heads
    token = (batch * length + n * 64).to(tl.int64)
    row = tl.program_id(2) * ROWS + tl.arange(0, ROWS)
    slot = ((batch * (length // 64) + n) * heads + head).to(tl.int64) * K * V
    state = tl.load(h_ptr + slot + tl.arange(0, K)[:, None] * V + (first + tl.arange(0, COLS))[None, :])
    w = tl.load(w_ptr + chunk_rows(token * heads * K + head * K, row, heads, K, 0, K))
    place = chunk_rows(token * heads * V + head * V, row, heads, V, first, COLS)
    tl.store(v_ptr + place, tl.load(u_ptr + place) - tl.dot(w, state, input_precision="${precision}"))


@triton.jit
def follow_kernel(k_ptr, g_ptr, h_ptr, v_ptr, length, heads, n, K: tl.constexpr, V: tl.constexpr, COLS: tl.constexpr,
                  ROWS: tl.constexpr):
    first = tl.program_id(0) * COLS
    head = tl.program_id(1) % heads
    batch = tl.program_id(1) // heads
    token = (batch * length + n * 64).to(tl.int64)
    wide = tl.arange(0, K)
    chunks = length // 64
    inside = wide[:, None] * V + (first + tl.arange(0, COLS))[None, :]
    slot = ((batch * chunks + n) * heads + head).to(tl.int64) * K * V
    last = tl.load(g_ptr + (token + 63) * heads + head)
    following = tl.load(h_ptr + slot + inside) * tl.exp(last)
    keys = token * heads * K + head * K
    for start in range(0, 64, ROWS):
        row = start + tl.arange(0, ROWS)
        fresh = tl.load(v_ptr + chunk_rows(token * heads * V + head * V, row, heads, V, first, COLS))
        decay = tl.exp(last - tl.load(g_ptr + (token + row) * heads + head))
%% if keys == "direct"
        k = tl.load(k_ptr + keys + row[None, :] * heads * K + wide[:, None])
%% else
        k = tl.trans(tl.load(k_ptr + chunk_rows(keys, row, heads, K, 0, K)))
%% endif
%% if scaling == "values"
        following += tl.dot(k, fresh * decay[:, None], input_precision="${precision}")
%% else
        following += tl.dot(k * decay[None, :], fresh, input_precision="${precision}")
%% endif
    next_slot = ((batch * chunks + n + 1) * heads + head).to(tl.int64) * K * V
    tl.store(h_ptr + next_slot + inside, following)


@triton.jit
def zero_kernel(h_ptr, stride, SIZE: tl.constexpr, BLOCK: tl.constexpr, heads):
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    base = batch.to(tl.int64) * stride + head * SIZE
    for start in range(0, SIZE, BLOCK):
        tl.store(h_ptr + base + start + tl.arange(0, BLOCK), tl.zeros((BLOCK,), tl.float32))


%% endif
def run(k, w, u, g):
    batch, length, heads, width = k.shape
    wide = u.shape[3]
    chunks = length // 64
    h = torch.empty((batch, chunks, heads, width, wide), dtype=torch.float32, device=k.device)
    v = torch.empty_like(u)
%% if method == "fused"
    grid = (wide // ${cols}, heads, batch)
    state_kernel[grid](
        k, w, u, g, h, v, length, heads, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps},
        num_stages=${stages}
    )
%% else
    size = width * wide
    zero_kernel[(batch * heads,)](h, chunks * heads * size, SIZE=size, BLOCK=1024, heads=heads)
    for n in range(chunks):
        fresh_kernel[(wide // ${cols}, batch * heads, ${64 // rows})](
            w, u, h, v, length, heads, n, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps}
        )
        if n + 1 < chunks:
            follow_kernel[(wide // ${cols}, batch * heads)](
                k, g, h, v, length, heads, n, K=width, V=wide, COLS=${cols}, ROWS=${rows}, num_warps=${warps}
            )
%% endif
    return h, v
%% section output
# family delta_output_triton for gdn_chunk_fwd_o
# shape inner = "whole", "steps"
# shape scaling = "before", "after"
# shape walk = "grid", "persistent"
# shape precision = "ieee", "tf32x3"
# pick rows = 16, 32, 64
# pick cols = 16, 32, 64
# pick warps = 2, 4, 8
# pick waves = 2, 4, 8
# refuse walk == "grid" and waves != 4: waves belong to the persistent walk
# refuse precision == "ieee" and (warps != 8 or rows == 64): exact products unroll into so many instructions that few
#     threads compile for minutes

import torch
import triton
import triton.language as tl


<%% include "sequence/delta.py#chunk_rows" %%>



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
%% section w_u
# family delta_w_u_triton for gdn_recompute_w_u
# shape inner = "whole", "steps"
# shape scaling = "rows", "matrix"
# shape fusion = "together", "apart"
# shape precision = "ieee", "tf32x3"
# pick rows = 16, 32, 64
# pick cols = 16, 32, 64
# pick warps = 2, 4, 8
# refuse precision == "ieee" and (warps != 8 or rows == 64): exact products unroll into so many instructions that few
#     threads compile for minutes

import torch
import triton
import triton.language as tl


<%% include "sequence/delta.py#chunk_rows" %%>



@triton.jit
def product(a_ptr, x_ptr, y_ptr, factor_ptr, g_ptr, chunk, part, heads, first, W: tl.constexpr, ROWS: tl.constexpr,
            COLS: tl.constexpr, DECAY: tl.constexpr):
    head = chunk % heads
    token = tl.cast(chunk // heads, tl.int64) * 64
    row = part * ROWS + tl.arange(0, ROWS)
    place = token * heads * W + head * W
%% if inner == "whole"
    other = tl.arange(0, 64)
    factor = tl.load(factor_ptr + (token + other) * heads + head)
    if DECAY:
        factor = factor * tl.exp(tl.load(g_ptr + (token + other) * heads + head))
    a = tl.load(a_ptr + chunk_rows(token * heads * 64 + head * 64, row, heads, 64, 0, 64))
    x = tl.load(x_ptr + chunk_rows(place, other, heads, W, first, COLS))
%% if scaling == "rows"
    total = tl.dot(a, x * factor[:, None], input_precision="${precision}")
%% else
    total = tl.dot(a * factor[None, :], x, input_precision="${precision}")
%% endif
%% else
    total = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, (part + 1) * ROWS, 16):
        other = start + tl.arange(0, 16)
        factor = tl.load(factor_ptr + (token + other) * heads + head)
        if DECAY:
            factor = factor * tl.exp(tl.load(g_ptr + (token + other) * heads + head))
        a = tl.load(a_ptr + chunk_rows(token * heads * 64 + head * 64, row, heads, 64, start, 16))
        x = tl.load(x_ptr + chunk_rows(place, other, heads, W, first, COLS))
%% if scaling == "rows"
        total += tl.dot(a, x * factor[:, None], input_precision="${precision}")
%% else
        total += tl.dot(a * factor[None, :], x, input_precision="${precision}")
%% endif
%% endif
    tl.store(y_ptr + chunk_rows(place, row, heads, W, first, COLS), total)


@triton.jit
def product_kernel(a_ptr, k_ptr, v_ptr, w_ptr, u_ptr, beta_ptr, g_ptr, heads, K: tl.constexpr, V: tl.constexpr,
                   ROWS: tl.constexpr, COLS: tl.constexpr):
    chunk = tl.program_id(0)
    part = tl.program_id(1)
%% if fusion == "together"
    for first in range(0, K, COLS):
        product(a_ptr, k_ptr, w_ptr, beta_ptr, g_ptr, chunk, part, heads, first, K, ROWS, COLS, True)
    for first in range(0, V, COLS):
        product(a_ptr, v_ptr, u_ptr, beta_ptr, g_ptr, chunk, part, heads, first, V, ROWS, COLS, False)
%% else
    block = tl.program_id(2)
    if block < K // COLS:
        product(a_ptr, k_ptr, w_ptr, beta_ptr, g_ptr, chunk, part, heads, block * COLS, K, ROWS, COLS, True)
    else:
        product(a_ptr, v_ptr, u_ptr, beta_ptr, g_ptr, chunk, part, heads, (block - K // COLS) * COLS, V, ROWS, COLS,
                False)
%% endif


def run(k, v, beta, a, g):
    batch, length, heads, width = k.shape
    wide = v.shape[3]
    w = torch.empty_like(k)
    u = torch.empty_like(v)
    chunks = batch * (length // 64) * heads
    grid = (chunks, ${64 // rows}, ${"1" if fusion == "together" else "(width + wide) // %d" % cols})
    product_kernel[grid](
        a, k, v, w, u, beta, g, heads, K=width, V=wide, ROWS=${rows}, COLS=${cols}, num_warps=${warps}, num_stages=1
    )
    return w, u
%% section chunk_rows
@triton.jit
def chunk_rows(base, row, heads, width, first_col, COLS: tl.constexpr):
    # Places of a block of tokens in a [batch, token, head, width] tensor, from the chunk's first element.
    return base + row[:, None] * heads * width + first_col + tl.arange(0, COLS)[None, :]
