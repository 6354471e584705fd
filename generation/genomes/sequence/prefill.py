# Attention over a whole prompt: one pass, two passes, or stored scores.
# family prefill_triton for attention_prefill
# shape method = "flash", "flash", "two_pass", "stored"
# shape order = "blocks", "heads", "persistent"
# shape keys = "direct", "turned"
# shape base = "two", "e"
# pick rows = 16, 32, 64, 128
# pick block = 16, 32, 64, 128
# pick warps = 2, 4, 8
# pick stages = 1, 2, 3
# refuse rows < 16 * warps // 2 or rows * block > 16384 or rows * 128 > warps * 32 * 64: tile against warps
# # Queries, and keys and values in every stage, in bfloat16 at dim 128.
# refuse 2 * 128 * (rows + 2 * block * stages) > 160000: shared memory
# refuse method == "stored" and order != "blocks": order belongs to the fused forms

import torch
import triton
import triton.language as tl


%% set power = "tl.exp2" if base == "two" else "tl.exp"
@triton.jit
def load_keys(k_ptr, start, length, D: tl.constexpr, BLOCK: tl.constexpr):
    token = start + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
%% if keys == "direct"
    return tl.load(k_ptr + token[None, :] * D + dims[:, None], mask=(token < length)[None, :], other=0.0)
%% else
    return tl.trans(tl.load(k_ptr + token[:, None] * D + dims[None, :], mask=(token < length)[:, None], other=0.0))
%% endif


@triton.jit
def score_block(q, k_ptr, start, length, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    scores = tl.dot(q, load_keys(k_ptr, start, length, D, BLOCK)) * scale
    return tl.where((start + tl.arange(0, BLOCK) < length)[None, :], scores, -1.0e30)


@triton.jit
def load_values(v_ptr, start, length, D: tl.constexpr, BLOCK: tl.constexpr):
    token = start + tl.arange(0, BLOCK)
    dims = tl.arange(0, D)
    return tl.load(v_ptr + token[:, None] * D + dims[None, :], mask=(token < length)[:, None], other=0.0)


%% if method == "stored"
@triton.jit
def score_kernel(q_ptr, k_ptr, scores_ptr, length, scale, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(2).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    start = tl.program_id(0) * BLOCK
    q = tl.load(q_ptr + head * length * D + row[:, None] * D + dims[None, :], mask=(row < length)[:, None], other=0.0)
    scores = score_block(q, k_ptr + head * length * D, start, length, scale, D, BLOCK)
    token = start + tl.arange(0, BLOCK)
    inside = (row < length)[:, None] & (token < length)[None, :]
    tl.store(scores_ptr + (head * length + row[:, None]) * length + token[None, :], scores, mask=inside)


@triton.jit
def mix_kernel(scores_ptr, v_ptr, out_ptr, length, D: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(1).to(tl.int64)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    line = (head * length + row[:, None]) * length
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        inside = (row < length)[:, None] & (token < length)[None, :]
        top = tl.maximum(top, tl.max(tl.load(scores_ptr + line + token[None, :], mask=inside, other=-1.0e30), 1))
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, D), tl.float32)
    for start in range(0, length, BLOCK):
        token = start + tl.arange(0, BLOCK)
        inside = (row < length)[:, None] & (token < length)[None, :]
        scores = tl.load(scores_ptr + line + token[None, :], mask=inside, other=-1.0e30)
        weights = ${power}(scores - top[:, None])
        total += tl.sum(weights, 1)
        sums += tl.dot(weights.to(tl.bfloat16), load_values(v_ptr + head * length * D, start, length, D, BLOCK))
    mixed = (sums / total[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + (head * length + row[:, None]) * D + dims[None, :], mixed, mask=(row < length)[:, None])
%% else
@triton.jit
def attend(q_ptr, k_ptr, v_ptr, out_ptr, head, block, length, scale, D: tl.constexpr, ROWS: tl.constexpr,
           BLOCK: tl.constexpr):
    row = block * ROWS + tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    base = tl.cast(head, tl.int64) * length * D
    q = tl.load(q_ptr + base + row[:, None] * D + dims[None, :], mask=(row < length)[:, None], other=0.0)
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, D), tl.float32)
%% if method == "two_pass"
    for start in range(0, length, BLOCK):
        scores = score_block(q, k_ptr + base, start, length, scale, D, BLOCK)
        higher = tl.maximum(top, tl.max(scores, 1))
        total = total * ${power}(top - higher) + tl.sum(${power}(scores - higher[:, None]), 1)
        top = higher
    for start in range(0, length, BLOCK):
        scores = score_block(q, k_ptr + base, start, length, scale, D, BLOCK)
        weights = ${power}(scores - top[:, None]) / total[:, None]
        sums += tl.dot(weights.to(tl.bfloat16), load_values(v_ptr + base, start, length, D, BLOCK))
    mixed = sums.to(tl.bfloat16)
%% else
    for start in range(0, length, BLOCK):
        scores = score_block(q, k_ptr + base, start, length, scale, D, BLOCK)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = ${power}(scores - higher[:, None])
        shrink = ${power}(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        values = load_values(v_ptr + base, start, length, D, BLOCK)
        sums = tl.dot(weights.to(tl.bfloat16), values, sums * shrink[:, None])
        top = higher
    mixed = (sums / total[:, None]).to(tl.bfloat16)
%% endif
    tl.store(out_ptr + base + row[:, None] * D + dims[None, :], mixed, mask=(row < length)[:, None])


@triton.jit
def attend_kernel(q_ptr, k_ptr, v_ptr, out_ptr, heads, length, scale, D: tl.constexpr, ROWS: tl.constexpr,
                  BLOCK: tl.constexpr):
    blocks = tl.cdiv(length, ROWS)
%% if order == "persistent"
    for tile in range(tl.program_id(0), heads * blocks, tl.num_programs(0)):
        attend(q_ptr, k_ptr, v_ptr, out_ptr, tile // blocks, tile % blocks, length, scale, D, ROWS, BLOCK)
%% elif order == "blocks"
    tile = tl.program_id(0)
    attend(q_ptr, k_ptr, v_ptr, out_ptr, tile // blocks, tile % blocks, length, scale, D, ROWS, BLOCK)
%% else
    tile = tl.program_id(0)
    attend(q_ptr, k_ptr, v_ptr, out_ptr, tile % heads, tile // heads, length, scale, D, ROWS, BLOCK)
%% endif
%% endif


def run(q, k, v):
    batch, heads, length, dim = q.shape
    out = torch.empty_like(q)
    scale = dim**-0.5${" * 1.4426950408889634" if base == "two" else ""}
    blocks = triton.cdiv(length, ${rows})
%% if method == "stored"
    scores = torch.empty((batch * heads, length, length), dtype=torch.float32, device=q.device)
    score_kernel[(triton.cdiv(length, ${block}), blocks, batch * heads)](
        q, k, scores, length, scale, D=dim, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
    mix_kernel[(blocks, batch * heads)](
        scores, v, out, length, D=dim, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}, num_stages=${stages}
    )
%% else
    tiles = batch * heads * blocks
%% if order == "persistent"
    tiles = min(tiles, 132 * 2)
%% endif
    attend_kernel[(tiles,)](
        q, k, v, out, batch * heads, length, scale, D=dim, ROWS=${rows}, BLOCK=${block}, num_warps=${warps},
        num_stages=${stages}
    )
%% endif
    return out
