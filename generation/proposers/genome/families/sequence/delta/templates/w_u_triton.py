import torch
import triton
import triton.language as tl


<%% include "sequence/delta/templates/chunk_rows.py" %%>



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
