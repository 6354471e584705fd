"""Triton kernels for the gated delta network's chunk outputs and its w and u."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.templated import pick, shape, templated
from kbench.generation.proposers.genome.family import Genome
from kbench.schemas import Backend

_ROWS = """
@triton.jit
def chunk_rows(base, row, heads, width, first_col, COLS: tl.constexpr):
    # Places of a block of tokens in a [batch, token, head, width] tensor, from the chunk's first element.
    return base + row[:, None] * heads * width + first_col + tl.arange(0, COLS)[None, :]


"""
OUTPUT = (
    _ROWS
    + """
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
"""
)
W_U = (
    _ROWS
    + """
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
"""
)


def _limits(genome: Genome) -> str | None:
    if genome["precision"] == "ieee" and (genome["warps"] != 8 or genome["rows"] == 64):
        return "exact products unroll into so many instructions that few threads compile for minutes"
    return None


def _output_limits(genome: Genome) -> str | None:
    if genome["walk"] == "grid" and genome["waves"] != 4:
        return "waves belong to the persistent walk"
    return _limits(genome)


FAMILIES = (
    templated(
        "delta_output_triton",
        Backend.TRITON,
        "gdn_chunk_fwd_o",
        OUTPUT,
        shape("inner", "whole", "steps"),
        shape("scaling", "before", "after"),
        shape("walk", "grid", "persistent"),
        shape("precision", "ieee", "tf32x3"),
        pick("rows", 16, 32, 64),
        pick("cols", 16, 32, 64),
        pick("warps", 2, 4, 8),
        pick("waves", 2, 4, 8),
        invalid=_output_limits,
    ),
    templated(
        "delta_w_u_triton",
        Backend.TRITON,
        "gdn_recompute_w_u",
        W_U,
        shape("inner", "whole", "steps"),
        shape("scaling", "rows", "matrix"),
        shape("fusion", "together", "apart"),
        shape("precision", "ieee", "tf32x3"),
        pick("rows", 16, 32, 64),
        pick("cols", 16, 32, 64),
        pick("warps", 2, 4, 8),
        invalid=_limits,
    ),
)
