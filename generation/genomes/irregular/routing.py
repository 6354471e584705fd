# Choice of experts: top-k of the router's softmax.
# family routing_triton for moe_topk_routing
# shape method = "value", "packed", "sort", "rank"
# shape softmax = "chosen", "first"
# shape persistent = False, True
# shape unroll = False, True
# pick rows = 1, 2, 4, 8, 16, 32
# pick warps = 1, 2, 4, 8
# refuse method in ("sort", "rank") and (unroll or softmax == "first"): only the maxima unroll or normalise first
# refuse method == "sort" and rows * 128 > warps * 32 * 16: more than 16 keys per thread compile for minutes
# refuse rows * 128 > warps * 32 * 64: too many values per thread

import torch
import triton
import triton.language as tl


@triton.jit
def to_key(value):
    bits = value.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def from_key(key):
    return tl.where(key < 0, key ^ 0x7FFFFFFF, key).to(tl.float32, bitcast=True)


@triton.jit
def route(logits_ptr, weights_ptr, experts_ptr, first, tokens, K: tl.constexpr, WIDTH: tl.constexpr,
          EXPERTS: tl.constexpr, ROWS: tl.constexpr):
    row = first + tl.arange(0, ROWS)
    known = row < tokens
    expert = tl.arange(0, EXPERTS)
    at = row.to(tl.int64)[:, None] * EXPERTS + expert[None, :]
    score = tl.load(logits_ptr + at, mask=known[:, None], other=0.0)
    slot = tl.arange(0, WIDTH)
    out = row.to(tl.int64)[:, None] * K + slot[None, :]
    inside = known[:, None] & (slot < K)[None, :]
%% if softmax == "first"
    score = tl.exp(score - tl.max(score, 1)[:, None])
    score = score / tl.sum(score, 1)[:, None]
%% endif
%% if method == "sort"
    packed = (to_key(score).to(tl.int64) << 32) | expert[None, :]
    packed = tl.sort(packed, 1, descending=True)
    chosen_expert = (packed & 0xFFFFFFFF).to(tl.int32)
    raw = from_key((packed >> 32).to(tl.int32))
    used = expert < K
    best = tl.max(raw, 1)
    part = tl.where(used[None, :], tl.exp(raw - best[:, None]), 0.0)
    weight = part / tl.sum(part, 1)[:, None]
    wide = row.to(tl.int64)[:, None] * K + expert[None, :]
    keep = known[:, None] & used[None, :]
    tl.store(weights_ptr + wide, weight, mask=keep)
    tl.store(experts_ptr + wide, chosen_expert, mask=keep)
%% elif method == "rank"
    rank = tl.zeros((ROWS, EXPERTS), tl.int32)
    base = row.to(tl.int64) * EXPERTS
    mine = score
    for other in range(EXPERTS):
        value = tl.load(logits_ptr + base + other, mask=known, other=0.0)
        rank += (value[:, None] > mine).to(tl.int32)
    kept = rank < K
    part = tl.where(kept, tl.exp(mine - tl.max(mine, 1)[:, None]), 0.0)
    weight = part / tl.sum(part, 1)[:, None]
    wide = row.to(tl.int64)[:, None] * K + rank
    tl.store(weights_ptr + wide, weight, mask=known[:, None] & kept)
    tl.store(experts_ptr + wide, expert[None, :] + tl.zeros((ROWS, EXPERTS), tl.int32), mask=known[:, None] & kept)
%% else
    chosen = tl.full((ROWS, WIDTH), float("-inf"), tl.float32)
    experts = tl.zeros((ROWS, WIDTH), tl.int32)
%% if method == "packed"
    packed = (to_key(score).to(tl.int64) << 32) | expert[None, :]
%% else
    left = score
%% endif
    for step in ${"tl.static_range" if unroll else "range"}(K):
%% if method == "packed"
        top = tl.max(packed, 1)
        packed = tl.where(packed == top[:, None], -9223372036854775807, packed)
        where = (top & 0xFFFFFFFF).to(tl.int32)
        value = from_key((top >> 32).to(tl.int32))
%% else
        value = tl.max(left, 1)
        where = tl.argmax(left, 1)
        left = tl.where(expert[None, :] == where[:, None], float("-inf"), left)
%% endif
        here = slot[None, :] == step
        chosen = tl.where(here, value[:, None], chosen)
        experts = tl.where(here, where[:, None], experts)
%% if softmax == "first"
    part = tl.where((slot < K)[None, :], chosen, 0.0)
%% else
    part = tl.exp(chosen - tl.max(chosen, 1)[:, None])
%% endif
    weight = part / tl.sum(part, 1)[:, None]
    tl.store(weights_ptr + out, weight, mask=inside)
    tl.store(experts_ptr + out, experts, mask=inside)
%% endif


@triton.jit
def routing_kernel(logits_ptr, weights_ptr, experts_ptr, tokens, K: tl.constexpr, WIDTH: tl.constexpr,
                   EXPERTS: tl.constexpr, ROWS: tl.constexpr):
%% if persistent
    for first in range(tl.program_id(0) * ROWS, tokens, tl.num_programs(0) * ROWS):
        route(logits_ptr, weights_ptr, experts_ptr, first, tokens, K, WIDTH, EXPERTS, ROWS)
%% else
    route(logits_ptr, weights_ptr, experts_ptr, tl.program_id(0) * ROWS, tokens, K, WIDTH, EXPERTS, ROWS)
%% endif


def run(logits, k):
    tokens, count = logits.shape
    weights = torch.empty((tokens, k), dtype=torch.float32, device=logits.device)
    experts = torch.empty((tokens, k), dtype=torch.int32, device=logits.device)
    programs = triton.cdiv(tokens, ${rows})
%% if persistent
    programs = min(programs, 132 * 8)
%% endif
    routing_kernel[(programs,)](
        logits, weights, experts, tokens, K=k, WIDTH=triton.next_power_of_2(k), EXPERTS=count, ROWS=${rows},
        num_warps=${warps}
    )
    return weights, experts
