"""Triton kernels that count bin numbers: private histograms against global atomics."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.templated import pick, shape, templated
from kbench.generation.proposers.genome.family import Genome
from kbench.schemas import Backend

HISTOGRAM = """
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
"""


def _histogram_limits(genome: Genome) -> str | None:
    if genome["method"] == "global" and genome["gather"] != "each":
        return "gather belongs to the block method"
    if genome["method"] == "block" and genome["gather"] == "partial" and genome["copies"] != 1:
        return "partial sums have no copies"
    if genome["method"] == "global" and (genome["copies"] == 1 or int(genome["block"]) > 4096):
        return "one copy is too contended"
    return None


FAMILIES = (
    templated(
        "histogram_triton",
        Backend.TRITON,
        "histogram",
        HISTOGRAM,
        shape("method", "block", "block", "global"),
        shape("loop", "stride", "chunk"),
        shape("gather", "atomic", "partial", "each"),
        pick("copies", 1, 8, 32, 64),
        pick("waves", 1, 2, 4, 8),
        pick("block", 1024, 2048, 4096, 8192),
        pick("warps", 4, 8, 16),
        invalid=_histogram_limits,
    ),
)
