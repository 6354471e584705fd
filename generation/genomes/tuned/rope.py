# Rotated queries and keys, keys and values into the cache: a program takes some heads of one token after another.
# family rope_cache_tuned for rope_cache_write
# pick tokens = 1, 2, 4, 8
# pick heads = 1, 2, 4, 8, 16, 32
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3
# refuse heads > 16 * warps: more than 32 pairs per thread
# refuse tokens == 1 and stages > 1: one token has no pipeline

import torch
import triton
import triton.language as tl


@triton.jit
def rotate(
    qkv_ptr, cos_ptr, sin_ptr, positions_ptr, slots_ptr, q_ptr, k_ptr, v_ptr, T, heads, kv_heads,
    HALF: tl.constexpr, TOKENS: tl.constexpr, HEADS: tl.constexpr, STAGES: tl.constexpr,
):
    d = tl.arange(0, HALF)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)
    for i in tl.range(0, TOKENS, num_stages=STAGES):
        t = tl.program_id(0) * TOKENS + i
        inside = t < T
        position = tl.load(positions_ptr + t, mask=inside, other=0)
        slot = tl.load(slots_ptr + t, mask=inside, other=0).to(tl.int64)
        known = (head < tl.where(inside, heads + 2 * kv_heads, 0))[:, None]
        at = (t.to(tl.int64) * (heads + 2 * kv_heads) + head)[:, None] * (2 * HALF) + d[None, :]
        first = tl.load(qkv_ptr + at, mask=known, other=0.0).to(tl.float32)
        second = tl.load(qkv_ptr + at + HALF, mask=known, other=0.0).to(tl.float32)
        cos = tl.load(cos_ptr + position * HALF + d)[None, :]
        sin = tl.load(sin_ptr + position * HALF + d)[None, :]
        turns = (head < heads + kv_heads)[:, None]
        left = tl.where(turns, first * cos - second * sin, first).to(tl.bfloat16)
        right = tl.where(turns, second * cos + first * sin, second).to(tl.bfloat16)
        query = q_ptr + (t.to(tl.int64) * heads + head)[:, None] * (2 * HALF)
        key = k_ptr + (slot * kv_heads + head - heads)[:, None] * (2 * HALF)
        value = v_ptr + (slot * kv_heads + head - heads - kv_heads)[:, None] * (2 * HALF)
        out = tl.where((head < heads)[:, None], query, tl.where(turns, key, value)) + d[None, :]
        tl.store(out, left, mask=known)
        tl.store(out + HALF, right, mask=known)


def run(qkv, cos, sin, positions, slots, kv_heads):
    T, every, dim = qkv.shape
    heads = every - 2 * kv_heads
    q = torch.empty((T, heads, dim), dtype=qkv.dtype, device=qkv.device)
    k = torch.empty((T, kv_heads, dim), dtype=qkv.dtype, device=qkv.device)
    v = torch.empty_like(k)
    rotate[(triton.cdiv(T, ${tokens}), triton.cdiv(every, ${heads}))](
        qkv, cos, sin, positions, slots, q, k, v, T, heads, kv_heads,
        HALF=dim // 2, TOKENS=${tokens}, HEADS=${heads}, STAGES=${stages}, num_warps=${warps},
    )
    return q, k, v
