# Causal attention of whole prompts: keys that every query of a tile sees first, the diagonal with its mask last.
# family causal_prefill_tuned for causal_gqa_attention
# family varlen_prefill_tuned for attention_varlen_prefill
# let packed = problem == "attention_varlen_prefill"
# pick block_m = 32, 64, 128, 256
# pick block_n = 16, 32, 64, 128
# pick warps = 2, 4, 8
# pick stages = 1, 2, 3, 4, 5
# pick order = 0, 1
# refuse block_m < 16 * warps: warps without rows of their own
# refuse block_m * block_n > 4096 * warps or block_m > 32 * warps: too many sums per thread
# refuse block_m % block_n != 0: the diagonal begins inside a block of keys

import torch
import triton
import triton.language as tl

%% macro step(masked)
        token = start + tl.arange(0, BN)
%% if masked
        known = (token < length)[:, None]
        k = tl.load(k_ptr + token[:, None] * kv_stride + dims[None, :], mask=known, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale
        scores = tl.where(token[None, :] <= rm[:, None], scores, -1.0e30)
%% else
        k = tl.load(k_ptr + token[:, None] * kv_stride + dims[None, :])
        scores = tl.dot(q, tl.trans(k)) * scale
%% endif
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        v = tl.load(v_ptr + token[:, None] * kv_stride + dims[None, :]${", mask=known, other=0.0" if masked else ""})
        acc = tl.dot(weights.to(tl.bfloat16), v, acc * shrink[:, None])
        top = higher
%% endmacro

@triton.jit
def attend(
    q_ptr, k_ptr, v_ptr, ${"starts_ptr, count" if packed else "length"}, o_ptr, heads, kv_heads, blocks, scale,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr${", COUNT: tl.constexpr" if packed else ""},
):
    # Tiles late in a prompt have the most keys: order 1 starts them first.
    block = ${"blocks - 1 - tl.program_id(0)" if order else "tl.program_id(0)"}
    head = tl.program_id(1)
    kv_head = head // (heads // kv_heads)
    dims = tl.arange(0, D)
%% if packed
    every = tl.arange(0, COUNT)
    begins = tl.load(starts_ptr + every, mask=every < count, other=0)
    ends = tl.load(starts_ptr + every + 1, mask=every < count, other=0)
    sizes = tl.where(every < count, tl.cdiv(ends - begins, BM), 0)
    lasts = tl.cumsum(sizes, 0)
    sequence = tl.sum((lasts <= block).to(tl.int32), 0)
    if sequence >= count:
        return
    own = every == sequence
    begin = tl.sum(tl.where(own, begins, 0), 0)
    length = tl.sum(tl.where(own, ends - begins, 0), 0)
    tile = tl.sum(tl.where(own, block - lasts + sizes, 0), 0)
    stride, kv_stride = heads * D, kv_heads * D
    q_ptr += begin * stride + head * D
    o_ptr += begin * stride + head * D
    k_ptr += begin * kv_stride + kv_head * D
    v_ptr += begin * kv_stride + kv_head * D
%% else
    tile = block
    stride, kv_stride = D, D
    batch = tl.program_id(2)
    q_ptr += (batch * heads + head).to(tl.int64) * length * D
    o_ptr += (batch * heads + head).to(tl.int64) * length * D
    k_ptr += (batch * kv_heads + kv_head).to(tl.int64) * length * D
    v_ptr += (batch * kv_heads + kv_head).to(tl.int64) * length * D
%% endif
    rm = tile * BM + tl.arange(0, BM)
    inside = (rm < length)[:, None]
    q = tl.load(q_ptr + rm[:, None] * stride + dims[None, :], mask=inside, other=0.0)
    top = tl.full((BM,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, tile * BM, BN):
        ${step(False).strip()}
    for start in range(tile * BM, tl.minimum(length, tile * BM + BM), BN):
        ${step(True).strip()}
    tl.store(o_ptr + rm[:, None] * stride + dims[None, :], (acc / total[:, None]).to(tl.bfloat16), mask=inside)


%% if packed
def run(q, k, v, starts):
    (tokens, heads, dim), kv_heads, count = q.shape, k.shape[1], starts.shape[0] - 1
    o = torch.empty_like(q)
    blocks = tokens // ${block_m} + count
    attend[(blocks, heads)](
        q, k, v, starts, count, o, heads, kv_heads, blocks, dim**-0.5 * 1.4426950408889634, D=dim,
        BM=${block_m}, BN=${block_n}, COUNT=triton.next_power_of_2(count), num_warps=${warps}, num_stages=${stages},
    )
    return o
%% else
def run(q, k, v):
    (batch, heads, length, dim), kv_heads = q.shape, k.shape[1]
    o = torch.empty_like(q)
    blocks = triton.cdiv(length, ${block_m})
    attend[(blocks, heads, batch)](
        q, k, v, length, o, heads, kv_heads, blocks, dim**-0.5 * 1.4426950408889634, D=dim,
        BM=${block_m}, BN=${block_n}, num_warps=${warps}, num_stages=${stages},
    )
    return o
%% endif
