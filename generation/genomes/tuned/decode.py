# One new token's attention to its cache, all query heads of a key-value head in one program, the cache split over programs.
# family ragged_decode_tuned for gqa_ragged_decode
# family paged_decode_tuned for paged_gqa_decode
# family paged_fp8_decode_tuned for paged_fp8_decode
# let paged = problem != "gqa_ragged_decode"
# let fp8 = problem == "paged_fp8_decode"
# let cast = ".to(tl.bfloat16)" if fp8 else ""
# let names = {"gqa_ragged_decode": "k, v, lengths", "paged_gqa_decode": "k_pages, v_pages, table, lengths",
#     "paged_fp8_decode": "k_pages, v_pages, k_scale, v_scale, table, lengths"}[problem]
# pick block = 16, 32, 64, 128, 256
# pick splits = 1, 2, 4, 8, 16, 32
# pick warps = 1, 2, 4, 8
# pick stages = 1, 2, 3, 4, 5
# refuse block > 64 * warps: more than 256 cached numbers per thread
# refuse block < 8 * warps: warps without a tile of their own

import torch
import triton
import triton.language as tl


<%% include "tuned/parts.py#combine" %%>
@triton.jit
def attend(
    q_ptr, ${names.replace(",", "_ptr,")}_ptr, part_ptr, stat_ptr, longest, heads, kv_heads, scale,
    D: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, SPLITS: tl.constexpr,
):
    batch = tl.program_id(0) // kv_heads
    kv_head = tl.program_id(0) % kv_heads
    part = tl.program_id(1)
    row = tl.arange(0, ROWS)
    dims = tl.arange(0, D)
    own = batch * heads + kv_head * GROUP + row
    used = row < GROUP
    q = tl.load(q_ptr + own[:, None] * D + dims[None, :], mask=used[:, None], other=0.0)
    length = tl.load(lengths_ptr + batch)
    share = tl.cdiv(tl.cdiv(length, SPLITS), BLOCK) * BLOCK
    stop = tl.minimum(length, (part + 1) * share)
%% if fp8
    scale *= tl.load(k_scale_ptr + kv_head)
%% endif
    top = tl.full((ROWS,), -1.0e30, dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    for start in range(part * share, stop, BLOCK):
        token = start + tl.arange(0, BLOCK)
        known = token < stop
%% if paged
        page = tl.load(table_ptr + batch * (longest // 64) + token // 64, mask=known, other=0).to(tl.int64)
        at = ((page * 64 + token % 64) * kv_heads + kv_head)[:, None] * D + dims[None, :]
        k = tl.load(k_pages_ptr + at, mask=known[:, None], other=0.0)${cast}
        v = tl.load(v_pages_ptr + at, mask=known[:, None], other=0.0)${cast}
%% else
        at = ((batch.to(tl.int64) * longest + token) * kv_heads + kv_head)[:, None] * D + dims[None, :]
        k = tl.load(k_ptr + at, mask=known[:, None], other=0.0)
        v = tl.load(v_ptr + at, mask=known[:, None], other=0.0)
%% endif
        scores = tl.where(known[None, :], tl.dot(q, tl.trans(k)) * scale, -1.0e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        acc = tl.dot(weights.to(tl.bfloat16), v, acc * shrink[:, None])
        top = higher
%% if fp8
    acc *= tl.load(v_scale_ptr + kv_head)
%% endif
    slot = own * SPLITS + part
    tl.store(part_ptr + slot[:, None] * D + dims[None, :], acc, mask=used[:, None])
    tl.store(stat_ptr + 2 * slot, top, mask=used)
    tl.store(stat_ptr + 2 * slot + 1, total, mask=used)


def run(q, ${names}):
    batch, heads, dim = q.shape
    longest, kv_heads = ${"table.shape[1] * 64, k_pages.shape[2]" if paged else "k.shape[1], k.shape[2]"}
    group = heads // kv_heads
    out = torch.empty_like(q)
    parts = torch.empty((batch * heads, ${splits}, dim), dtype=torch.float32, device=q.device)
    stats = torch.empty((batch * heads, ${splits}, 2), dtype=torch.float32, device=q.device)
    attend[(batch * kv_heads, ${splits})](
        q, ${names}, parts, stats, longest, heads, kv_heads, dim**-0.5 * 1.4426950408889634,
        D=dim, GROUP=group, ROWS=max(16, triton.next_power_of_2(group)), BLOCK=${block}, SPLITS=${splits},
        num_warps=${warps}, num_stages=${stages},
    )
    combine[(batch * heads,)](parts, stats, out, D=dim, SPLITS=${splits}, num_warps=2)
    return out
