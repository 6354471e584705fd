# Tokens brought into expert order: count, scan, place, move.
# family expert_order_triton for moe_permute
# shape move = "gather", "tile", "scatter"
# shape rank = "compare", "cumulate"
# shape count = "histogram", "compare"
# shape word = "int16", "int32"
# pick chunk = 64, 128, 256
# pick rows = 1, 2, 4, 8
# pick block = 128, 256, 512, 1024, 2048
# pick warps = 1, 2, 4, 8
# refuse move == "scatter" and rows != 1: rows belong to the gathers
# refuse move == "tile" and rows * block > 8192: tile too large

import torch
import triton
import triton.language as tl


@triton.jit
def count_kernel(experts_ptr, counts_ptr, pairs, experts, WIDTH: tl.constexpr, CHUNK: tl.constexpr):
    chunk = tl.program_id(0)
    place = chunk * CHUNK + tl.arange(0, CHUNK)
    chosen = tl.load(experts_ptr + place, mask=place < pairs, other=experts)
    number = tl.arange(0, WIDTH)
%% if count == "histogram"
    counts = tl.histogram(tl.minimum(chosen, WIDTH - 1), WIDTH)
    beyond = tl.sum((chosen >= WIDTH).to(tl.int32), 0)
    counts -= tl.where(number == WIDTH - 1, beyond, 0)
%% else
    counts = tl.sum((chosen[:, None] == number[None, :]).to(tl.int32), 0)
%% endif
    tl.store(counts_ptr + chunk * WIDTH + number, counts)


@triton.jit
def scan_kernel(counts_ptr, totals_ptr, chunks, experts, WIDTH: tl.constexpr):
    number = tl.arange(0, WIDTH)
    used = number < experts
    total = tl.zeros((WIDTH,), tl.int32)
    for chunk in range(chunks):
        counts = tl.load(counts_ptr + chunk * WIDTH + number)
        total += tl.where(used, counts, 0)
    tl.store(totals_ptr + number, total, mask=used)
    running = tl.cumsum(total, 0) - total
    for chunk in range(chunks):
        counts = tl.load(counts_ptr + chunk * WIDTH + number)
        tl.store(counts_ptr + chunk * WIDTH + number, running)
        running += counts


@triton.jit
def place_kernel(experts_ptr, starts_ptr, slots_ptr, tokens_ptr, pairs, choices, WIDTH: tl.constexpr,
                 CHUNK: tl.constexpr):
    chunk = tl.program_id(0)
    lane = tl.arange(0, CHUNK)
    place = chunk * CHUNK + lane
    known = place < pairs
    chosen = tl.load(experts_ptr + place, mask=known, other=-1)
%% if rank == "compare"
    earlier = (chosen[None, :] == chosen[:, None]) & (lane[None, :] < lane[:, None])
    rank = tl.sum(earlier.to(tl.int32), 1)
%% else
    number = tl.arange(0, WIDTH)
    hits = (chosen[:, None] == number[None, :]).to(tl.int32)
    rank = tl.sum((tl.cumsum(hits, 0) - hits) * hits, 1)
%% endif
    slot = tl.load(starts_ptr + chunk * WIDTH + chosen, mask=known, other=0) + rank
    tl.store(tokens_ptr + slot, place // choices, mask=known)
%% if move == "scatter"
    tl.store(slots_ptr + place, slot, mask=known)
%% endif


%% if move == "gather"
@triton.jit
def move_kernel(x_ptr, tokens_ptr, out_ptr, pairs, hidden, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    for step in range(ROWS):
        slot = tl.program_id(0) * ROWS + step
        if slot < pairs:
            token = tl.load(tokens_ptr + slot).to(tl.int64)
            for start in range(0, hidden, BLOCK):
                cols = start + tl.arange(0, BLOCK)
                values = tl.load(x_ptr + token * hidden + cols, mask=cols < hidden, other=0)
                tl.store(out_ptr + slot.to(tl.int64) * hidden + cols, values, mask=cols < hidden)
%% elif move == "tile"
@triton.jit
def move_kernel(x_ptr, tokens_ptr, out_ptr, pairs, hidden, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    slot = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    token = tl.load(tokens_ptr + slot, mask=slot < pairs, other=0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (slot < pairs)[:, None] & (cols < hidden)[None, :]
    values = tl.load(x_ptr + token[:, None] * hidden + cols[None, :], mask=inside, other=0)
    tl.store(out_ptr + slot.to(tl.int64)[:, None] * hidden + cols[None, :], values, mask=inside)
%% else
@triton.jit
def move_kernel(x_ptr, slots_ptr, out_ptr, hidden, CHOICES: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x_ptr + token * hidden + cols, mask=cols < hidden, other=0)
    for choice in range(CHOICES):
        slot = tl.load(slots_ptr + token * CHOICES + choice).to(tl.int64)
        tl.store(out_ptr + slot * hidden + cols, values, mask=cols < hidden)
%% endif


def run(x, experts, num_experts):
    hidden = x.shape[1]
    count, choices = experts.shape
    pairs = count * choices
    width = triton.next_power_of_2(num_experts)
    chunks = triton.cdiv(pairs, ${chunk})
    permuted = torch.empty((pairs, hidden), dtype=x.dtype, device=x.device)
    tokens = torch.empty(pairs, dtype=torch.int32, device=x.device)
    totals = torch.empty(num_experts, dtype=torch.int32, device=x.device)
    counts = torch.empty((chunks, width), dtype=torch.int32, device=x.device)
    slots = torch.empty(${"pairs" if move == "scatter" else "1"}, dtype=torch.int32, device=x.device)
    count_kernel[(chunks,)](experts, counts, pairs, num_experts, WIDTH=width, CHUNK=${chunk}, num_warps=4)
    scan_kernel[(1,)](counts, totals, chunks, num_experts, WIDTH=width, num_warps=1)
    place_kernel[(chunks,)](
        experts, counts, slots, tokens, pairs, choices, WIDTH=width, CHUNK=${chunk}, num_warps=4
    )
%% if word == "int32"
    source, target = x.view(torch.int32), permuted.view(torch.int32)
%% else
    source, target = x, permuted
%% endif
    wide = source.shape[1]
%% if move == "gather"
    grid = (triton.cdiv(pairs, ${rows}),)
    move_kernel[grid](source, tokens, target, pairs, wide, BLOCK=${block}, ROWS=${rows}, num_warps=${warps})
%% elif move == "tile"
    grid = (triton.cdiv(pairs, ${rows}), triton.cdiv(wide, ${block}))
    move_kernel[grid](source, tokens, target, pairs, wide, BLOCK=${block}, ROWS=${rows}, num_warps=${warps})
%% else
    grid = (count, triton.cdiv(wide, ${block}))
    move_kernel[grid](source, slots, target, wide, CHOICES=choices, BLOCK=${block}, num_warps=${warps})
%% endif
    return permuted, tokens, totals
