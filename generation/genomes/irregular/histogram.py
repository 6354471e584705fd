# Counts of bin numbers: private or shared copies, warp votes, global atomics.
# family histogram_triton for histogram
# shape method = "block", "block", "global"
# shape loop = "stride", "chunk"
# shape gather = "atomic", "partial", "each"
# pick copies = 1, 8, 32, 64
# pick waves = 1, 2, 4, 8
# pick block = 1024, 2048, 4096, 8192
# pick warps = 4, 8, 16
# refuse method == "global" and gather != "each": gather belongs to the block method
# refuse method == "block" and gather == "partial" and (copies != 1): partial sums have no copies
# refuse method == "global" and (copies == 1 or block > 4096): one copy is too contended

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, out_ptr, count, BINS: tl.constexpr, BLOCK: tl.constexpr, COPIES: tl.constexpr):
    program = tl.program_id(0)
%% if method == "global"
%% if loop == "stride"
    for start in range(program * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        known = place < count
        bins = tl.load(x_ptr + place, mask=known, other=0)
        tl.atomic_add(out_ptr + (program % COPIES) * BINS + bins, tl.full((BLOCK,), 1, tl.int32), mask=known)
%% else
    place = program * BLOCK + tl.arange(0, BLOCK)
    known = place < count
    bins = tl.load(x_ptr + place, mask=known, other=0)
    tl.atomic_add(out_ptr + (program % COPIES) * BINS + bins, tl.full((BLOCK,), 1, tl.int32), mask=known)
%% endif
%% else
    number = tl.arange(0, BINS)
    total = tl.zeros((BINS,), tl.int32)
%% if loop == "stride"
    for start in range(program * BLOCK, count, tl.num_programs(0) * BLOCK):
%% else
    share = tl.cdiv(tl.cdiv(count, BLOCK), tl.num_programs(0)) * BLOCK
    for start in range(program * share, tl.minimum(count, (program + 1) * share), BLOCK):
%% endif
        place = start + tl.arange(0, BLOCK)
        known = place < count
        bins = tl.load(x_ptr + place, mask=known, other=0)
        part = tl.histogram(bins, BINS)
        unknown = BLOCK - tl.sum(known.to(tl.int32), 0)
%% if gather == "each"
        part -= tl.where(number == 0, unknown, 0)
        tl.atomic_add(out_ptr + (program % COPIES) * BINS + number, part, mask=part > 0)
%% else
        total += part - tl.where(number == 0, unknown, 0)
%% endif
%% if gather == "atomic"
    tl.atomic_add(out_ptr + (program % COPIES) * BINS + number, total, mask=total > 0)
%% elif gather == "partial"
    tl.store(out_ptr + program * BINS + number, total)
%% endif
%% endif


@triton.jit
def reduce_kernel(parts_ptr, out_ptr, parts, BINS: tl.constexpr, BLOCK: tl.constexpr):
    number = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.int32)
    for part in range(parts):
        total += tl.load(parts_ptr + part * BINS + number)
    tl.store(out_ptr + number, total)


def run(x, bins):
    count = x.numel()
%% if loop == "stride" or method == "block"
    programs = min(${waves} * 132, triton.cdiv(count, ${block}))
%% else
    programs = triton.cdiv(count, ${block})
%% endif
%% if method == "block" and gather == "partial"
    parts = programs
    counts = torch.empty((parts, bins), dtype=torch.int32, device=x.device)
%% else
    parts = ${copies}
    counts = torch.zeros((parts, bins), dtype=torch.int32, device=x.device)
%% endif
    histogram_kernel[(programs,)](x, counts, count, BINS=bins, BLOCK=${block}, COPIES=${copies}, num_warps=${warps})
    if parts == 1:
        return counts.view(bins)
    out = torch.empty(bins, dtype=torch.int32, device=x.device)
    width = min(bins, 64)
    reduce_kernel[(bins // width,)](counts, out, parts, BINS=bins, BLOCK=width, num_warps=1)
    return out
