# One new token's multi-head latent attention: a block of heads reads each cached vector once, as key and as value.
# family mla_decode_tuned for mla_decode
# family mla_paged_tuned for mla_paged_decode
# let paged = problem == "mla_paged_decode"
# let names = "pages, table, lengths" if paged else "cache"
# pick heads = 16, 32, 64
# pick block = 16, 32, 64, 128
# pick splits = 1, 2, 4, 8, 16, 32
# pick warps = 4, 8
# pick stages = 1, 2, 3
# refuse heads * 512 > 4096 * warps: more than 128 sums per thread
# refuse block * stages > 128: cached vectors of 1152 bytes do not fit into shared memory

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#combine" %%>
@triton.jit
def attend(
    q_ptr, ${names.replace(",", "_ptr,")}_ptr, part_ptr, stat_ptr, longest, heads,
    V: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):
    batch = tl.program_id(1)
    part = tl.program_id(2)
    head = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    used = head < heads
    dims = tl.arange(0, V)
    turned = V + tl.arange(0, 64)
    WIDTH: tl.constexpr = V + 64
    own = batch * heads + head
    q = tl.load(q_ptr + own[:, None] * WIDTH + dims[None, :], mask=used[:, None], other=0.0)
    q_turned = tl.load(q_ptr + own[:, None] * WIDTH + turned[None, :], mask=used[:, None], other=0.0)
%% if paged
    length = tl.load(lengths_ptr + batch)
%% else
    length = longest
%% endif
    share = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK) * BLOCK
    stop = tl.minimum(length, (part + 1) * share)
    top = tl.full((HEADS,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((HEADS,), dtype=tl.float32)
    acc = tl.zeros((HEADS, V), dtype=tl.float32)
    for start in range(part * share, stop, BLOCK):
        token = start + tl.arange(0, BLOCK)
        known = token < stop
%% if paged
        page = tl.load(table_ptr + batch * (longest // 64) + token // 64, mask=known, other=0).to(tl.int64)
        row = pages_ptr + ((page * 64 + token % 64) * WIDTH)[:, None]
%% else
        row = cache_ptr + ((batch.to(tl.int64) * longest + token) * WIDTH)[:, None]
%% endif
        latent = tl.load(row + dims[None, :], mask=known[:, None], other=0.0)
        key = tl.load(row + turned[None, :], mask=known[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(latent))
        scores = tl.dot(q_turned, tl.trans(key), scores) * 0.10411754627697264
        scores = tl.where(known[None, :], scores, -1.0e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.bfloat16), latent, acc * shrink[:, None])
        top = higher
    slot = own * SPLITS + part
    tl.store(part_ptr + slot[:, None] * V + dims[None, :], acc, mask=used[:, None])
    tl.store(stat_ptr + 2 * slot, top, mask=used)
    tl.store(stat_ptr + 2 * slot + 1, total, mask=used)


def run(q, ${names}):
    batch, heads, width = q.shape
    longest = ${"table.shape[1] * 64" if paged else "cache.shape[1]"}
    value = width - 64
    out = torch.empty((batch, heads, value), dtype=q.dtype, device=q.device)
    parts = torch.empty((batch * heads, ${splits}, value), dtype=torch.float32, device=q.device)
    stats = torch.empty((batch * heads, ${splits}, 2), dtype=torch.float32, device=q.device)
    attend[(triton.cdiv(heads, ${heads}), batch, ${splits})](
        q, ${names}, parts, stats, longest, heads, V=value, HEADS=${heads}, BLOCK=${block}, SPLITS=${splits},
        num_warps=${warps}, num_stages=${stages},
    )
    combine[(batch * heads,)](parts, stats, out, D=value, SPLITS=${splits}, num_warps=4)
    return out
