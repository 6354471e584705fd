# Attention of one new token to a dense, grouped or paged cache.
# family decode_triton for attention_decode, paged_attention_decode
# family grouped_decode_triton for gqa_decode
# let sharing = "head"
# shape sharing = ("group", "head") if problem == "gqa_decode" else ()
# shape method = "flash", "flash", "scores"
# shape compute = "vector", "dot"
# shape splits = 1, 2, 4, 8, 16
# pick block = 16, 32, 64, 128
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4
# refuse method == "scores" and splits != 1: only the one-pass form splits the cache
# refuse block * 128 > warps * 32 * 128: too many values per thread
# refuse compute == "vector" and sharing == "group" and block > 32: a group of heads by elementwise products fills the
#     registers

import torch
import triton
import triton.language as tl


%% set paged = problem == "paged_attention_decode"
%% set grouped = problem == "gqa_decode"
@triton.jit
def place_of(token, first, stride, table_ptr, known):
%% if paged
    page = tl.load(table_ptr + token // 16, mask=known, other=0).to(tl.int64)
    return first + (page * 16 + token % 16) * stride
%% else
    return first + token.to(tl.int64) * stride
%% endif


@triton.jit
def score_block(q, k_ptr, place, known, scale, D: tl.constexpr):
    dims = tl.arange(0, D)
    k = tl.load(k_ptr + place[:, None] + dims[None, :], mask=known[:, None], other=0.0)
%% if compute == "dot"
    scores = tl.dot(q, tl.trans(k)) * scale
%% else
    scores = tl.sum(q[:, None, :] * k.to(tl.float32)[None, :, :], 2) * scale
%% endif
    return tl.where(known[None, :], scores, -1.0e30)


@triton.jit
def weigh_block(weights, v_ptr, place, known, D: tl.constexpr):
    dims = tl.arange(0, D)
    v = tl.load(v_ptr + place[:, None] + dims[None, :], mask=known[:, None], other=0.0)
%% if compute == "dot"
    return tl.dot(weights.to(tl.bfloat16), v)
%% else
    return tl.sum(weights[:, :, None] * v.to(tl.float32)[None, :, :], 1)
%% endif


%% if method == "flash"
@triton.jit
def attend_kernel(q_ptr, k_ptr, v_ptr, table_ptr, lengths_ptr, out_ptr, parts_ptr, stats_ptr, length, heads, kv_heads,
                  scale, D: tl.constexpr, ROWS: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr,
                  SPLITS: tl.constexpr):
    program = tl.program_id(0)
    part = tl.program_id(1)
    groups = heads // GROUP
    batch = program // groups
    head = (program % groups) * GROUP
    row = tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    own = batch * heads + head + row
%% if compute == "dot"
    q = tl.load(q_ptr + own[:, None] * D + dims[None, :], mask=(row < GROUP)[:, None], other=0.0)
%% else
    q = tl.load(q_ptr + own[:, None] * D + dims[None, :], mask=(row < GROUP)[:, None], other=0.0).to(tl.float32)
%% endif
    kv_head = head // (heads // kv_heads)
%% if paged
    last = tl.load(lengths_ptr + batch)
    table_ptr += batch * (length // 16)
    first = kv_head.to(tl.int64) * D
    stride = kv_heads * D
%% elif grouped
    last = length
    first = batch.to(tl.int64) * length * kv_heads * D + kv_head * D
    stride = kv_heads * D
%% else
    last = length
    first = (batch.to(tl.int64) * kv_heads + kv_head) * length * D
    stride = D
%% endif
    share = tl.cdiv(tl.cdiv(last, SPLITS), BLOCK) * BLOCK
    stop = tl.minimum(last, (part + 1) * share)
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, D), tl.float32)
    for start in range(part * share, stop, BLOCK):
        token = start + tl.arange(0, BLOCK)
        known = token < stop
        place = place_of(token, first, stride, table_ptr, known)
        scores = score_block(q, k_ptr, place, known, scale, D)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp(scores - higher[:, None])
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        sums = sums * shrink[:, None] + weigh_block(weights, v_ptr, place, known, D)
        top = higher
    kept = (row < GROUP)[:, None]
%% if splits > 1
    slot = own * SPLITS + part
    tl.store(parts_ptr + slot[:, None] * D + dims[None, :], sums, mask=kept)
    tl.store(stats_ptr + slot * 2, top, mask=row < GROUP)
    tl.store(stats_ptr + slot * 2 + 1, total, mask=row < GROUP)
%% else
    tl.store(out_ptr + own[:, None] * D + dims[None, :], (sums / total[:, None]).to(tl.bfloat16), mask=kept)
%% endif


%% if splits > 1
@triton.jit
def combine_kernel(parts_ptr, stats_ptr, out_ptr, D: tl.constexpr, SPLITS: tl.constexpr):
    own = tl.program_id(0)
    part = tl.arange(0, SPLITS)
    dims = tl.arange(0, D)
    top = tl.load(stats_ptr + (own * SPLITS + part) * 2)
    total = tl.load(stats_ptr + (own * SPLITS + part) * 2 + 1)
    factor = tl.exp(top - tl.max(top, 0))
    sums = tl.load(parts_ptr + (own * SPLITS + part)[:, None] * D + dims[None, :])
    mixed = tl.sum(sums * factor[:, None], 0) / tl.sum(total * factor, 0)
    tl.store(out_ptr + own * D + dims, mixed.to(tl.bfloat16))


%% endif
%% else
@triton.jit
def score_kernel(q_ptr, k_ptr, table_ptr, lengths_ptr, scores_ptr, length, heads, kv_heads, scale, D: tl.constexpr,
                 ROWS: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    groups = heads // GROUP
    batch = program // groups
    head = (program % groups) * GROUP
    row = tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    own = batch * heads + head + row
    q = tl.load(q_ptr + own[:, None] * D + dims[None, :], mask=(row < GROUP)[:, None], other=0.0)
%% if compute != "dot"
    q = q.to(tl.float32)
%% endif
    kv_head = head // (heads // kv_heads)
%% if paged
    last = tl.load(lengths_ptr + batch)
    table_ptr += batch * (length // 16)
    first = kv_head.to(tl.int64) * D
    stride = kv_heads * D
%% elif grouped
    last = length
    first = batch.to(tl.int64) * length * kv_heads * D + kv_head * D
    stride = kv_heads * D
%% else
    last = length
    first = (batch.to(tl.int64) * kv_heads + kv_head) * length * D
    stride = D
%% endif
    token = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    known = token < last
    scores = score_block(q, k_ptr, place_of(token, first, stride, table_ptr, known), known, scale, D)
    inside = (row < GROUP)[:, None] & (token < length)[None, :]
    tl.store(scores_ptr + own[:, None] * length + token[None, :], scores, mask=inside)


@triton.jit
def value_kernel(v_ptr, table_ptr, lengths_ptr, scores_ptr, out_ptr, length, heads, kv_heads, D: tl.constexpr,
                 ROWS: tl.constexpr, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    groups = heads // GROUP
    batch = program // groups
    head = (program % groups) * GROUP
    row = tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    own = batch * heads + head + row
    kv_head = head // (heads // kv_heads)
%% if paged
    last = tl.load(lengths_ptr + batch)
    table_ptr += batch * (length // 16)
    first = kv_head.to(tl.int64) * D
    stride = kv_heads * D
%% elif grouped
    last = length
    first = batch.to(tl.int64) * length * kv_heads * D + kv_head * D
    stride = kv_heads * D
%% else
    last = length
    first = (batch.to(tl.int64) * kv_heads + kv_head) * length * D
    stride = D
%% endif
    top = tl.full((ROWS,), -1.0e30, tl.float32)
    for start in range(0, last, BLOCK):
        token = start + tl.arange(0, BLOCK)
        inside = (row < GROUP)[:, None] & (token < last)[None, :]
        scores = tl.load(scores_ptr + own[:, None] * length + token[None, :], mask=inside, other=-1.0e30)
        top = tl.maximum(top, tl.max(scores, 1))
    total = tl.zeros((ROWS,), tl.float32)
    sums = tl.zeros((ROWS, D), tl.float32)
    for start in range(0, last, BLOCK):
        token = start + tl.arange(0, BLOCK)
        known = token < last
        inside = (row < GROUP)[:, None] & known[None, :]
        scores = tl.load(scores_ptr + own[:, None] * length + token[None, :], mask=inside, other=-1.0e30)
        weights = tl.where(known[None, :], tl.exp(scores - top[:, None]), 0.0)
        total += tl.sum(weights, 1)
        place = place_of(token, first, stride, table_ptr, known)
        sums += weigh_block(weights, v_ptr, place, known, D)
    mixed = (sums / total[:, None]).to(tl.bfloat16)
    tl.store(out_ptr + own[:, None] * D + dims[None, :], mixed, mask=(row < GROUP)[:, None])


%% endif
%% if paged
def run(q, k_pages, v_pages, page_table, context_lengths):
    k, v, table, lengths = k_pages, v_pages, page_table, context_lengths
    length = page_table.shape[1] * 16
    kv_heads = k.shape[2]
%% else
def run(q, k, v):
    table, lengths = q, q
%% if grouped
    length, kv_heads = k.shape[1], k.shape[2]
%% else
    kv_heads, length = k.shape[1], k.shape[2]
%% endif
%% endif
    batch, heads, dim = q.shape
    out = torch.empty_like(q)
%% if grouped and sharing == "group"
    group = heads // kv_heads
%% else
    group = 1
%% endif
    rows = ${"16" if compute == "dot" else "group"}
    scale = dim**-0.5
    programs = batch * heads // group
%% if method == "flash"
    parts = torch.empty((batch * heads, ${splits}, dim), dtype=torch.float32, device=q.device)
    stats = torch.empty((batch * heads, ${splits}, 2), dtype=torch.float32, device=q.device)
    attend_kernel[(programs, ${splits})](
        q, k, v, table, lengths, out, parts, stats, length, heads, kv_heads, scale,
        D=dim, ROWS=rows, GROUP=group, BLOCK=${block}, SPLITS=${splits}, num_warps=${warps}, num_stages=${stages}
    )
%% if splits > 1
    combine_kernel[(batch * heads,)](parts, stats, out, D=dim, SPLITS=${splits}, num_warps=2)
%% endif
%% else
    scores = torch.empty((batch * heads, length), dtype=torch.float32, device=q.device)
    score_kernel[(programs, triton.cdiv(length, ${block}))](
        q, k, table, lengths, scores, length, heads, kv_heads, scale,
        D=dim, ROWS=rows, GROUP=group, BLOCK=${block}, num_warps=${warps}
    )
    value_kernel[(programs,)](
        v, table, lengths, scores, out, length, heads, kv_heads,
        D=dim, ROWS=rows, GROUP=group, BLOCK=${block}, num_warps=${warps}, num_stages=${stages}
    )
%% endif
    return out
