"""Triton kernels that scale a matrix by one number or by one number a row: pure memory traffic."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("walk", ("flat", "flat_stride", "tile", "tile_stride", "row"), structural=True),
    Gene("unroll", (1, 2, 4), structural=True),
    Gene("bounds", ("masked", "branch"), structural=True),
    Gene("load", ("plain", "evict_first", "cg"), structural=True),
    Gene("store", ("plain", "evict_first", "cs", "wt"), structural=True),
    Gene("programs", (132, 528, 1056, 2112)),
    Gene("rows", (1, 2, 4, 8)),
    Gene("block", (128, 256, 512, 1024, 2048, 4096)),
    Gene("warps", (1, 2, 4, 8)),
)

TEMPLATE = """
import torch
import triton
import triton.language as tl


@triton.jit
%% if flat
def scale(a_ptr, ${factor}, c_ptr, SIZE, ${"COLUMNS, " if diagonal else ""}BLOCK: tl.constexpr):
%% if walk == "flat_stride"
    for block in range(tl.program_id(0), tl.cdiv(SIZE, BLOCK * ${unroll}), tl.num_programs(0)):
        first = block * BLOCK * ${unroll}
%% else
    first = tl.program_id(0) * BLOCK * ${unroll}
    if first < SIZE:
%% endif
        for u in tl.static_range(${unroll}):
            at = first + u * BLOCK + tl.arange(0, BLOCK)
%% if bounds == "branch"
            if first + u * BLOCK + BLOCK <= SIZE:
                v = tl.load(a_ptr + at${load})
                tl.store(c_ptr + at, v * ${scaled}${store})
            else:
                v = tl.load(a_ptr + at, mask=at < SIZE)
                tl.store(c_ptr + at, v * ${scaled_masked}, mask=at < SIZE)
%% else
            v = tl.load(a_ptr + at, mask=at < SIZE${load})
            tl.store(c_ptr + at, v * ${scaled_masked}, mask=at < SIZE${store})
%% endif
%% elif walk == "row"
def scale(a_ptr, ${factor}, c_ptr, ROWS_TOTAL, COLUMNS, BLOCK: tl.constexpr):
    row = tl.program_id(0)
%% if diagonal
    s = tl.load(d_ptr + row)
%% endif
    for start in range(0, COLUMNS, BLOCK * ${unroll}):
        for u in tl.static_range(${unroll}):
            n = start + u * BLOCK + tl.arange(0, BLOCK)
            at = row * COLUMNS + n
            v = tl.load(a_ptr + at, mask=n < COLUMNS${load})
            tl.store(c_ptr + at, v * s, mask=n < COLUMNS${store})
%% else
def scale(a_ptr, ${factor}, c_ptr, ROWS_TOTAL, COLUMNS, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    across = tl.cdiv(COLUMNS, BLOCK)
%% if walk == "tile_stride"
    for tile in range(tl.program_id(0), tl.cdiv(ROWS_TOTAL, ROWS) * across, tl.num_programs(0)):
%% else
    tile = tl.program_id(0)
    if tile < tl.cdiv(ROWS_TOTAL, ROWS) * across:
%% endif
        m = tile // across * ROWS + tl.arange(0, ROWS)
        n = tile % across * BLOCK + tl.arange(0, BLOCK)
        at = m[:, None] * COLUMNS + n[None, :]
        inside = (m[:, None] < ROWS_TOTAL) & (n[None, :] < COLUMNS)
%% if diagonal
        s = tl.load(d_ptr + m, mask=m < ROWS_TOTAL, other=0.0)[:, None]
%% endif
        v = tl.load(a_ptr + at, mask=inside${load})
        tl.store(c_ptr + at, v * s, mask=inside${store})
%% endif


%% if diagonal
def run(d, b):
    a = b
    s = d
%% else
def run(a, s):
%% endif
    out = torch.empty_like(a)
    rows, columns = a.shape
%% if flat
    size = a.numel()
    blocks = triton.cdiv(size, ${block * unroll})
    scale[(${"min(blocks, %d)" % programs if walk == "flat_stride" else "blocks"},)](
        a, s, out, size, ${"columns, " if diagonal else ""}BLOCK=${block}, num_warps=${warps}
    )
%% elif walk == "row"
    scale[(rows,)](a, s, out, rows, columns, BLOCK=${block}, num_warps=${warps})
%% else
    tiles = triton.cdiv(rows, ${rows}) * triton.cdiv(columns, ${block})
    scale[(${"min(tiles, %d)" % programs if walk == "tile_stride" else "tiles"},)](
        a, s, out, rows, columns, ROWS=${rows}, BLOCK=${block}, num_warps=${warps}
    )
%% endif
    return out
"""

LEAST_AHEAD = 132 * 1024
"""Elements a strided grid must have in flight, or memory latency makes it tens of times slower than the rest."""
LOADS = {"plain": "", "evict_first": ', eviction_policy="evict_first"', "cg": ', cache_modifier=".cg"'}
STORES = {
    "plain": "",
    "evict_first": ', eviction_policy="evict_first"',
    "cs": ', cache_modifier=".cs"',
    "wt": ', cache_modifier=".wt"',
}


def genes(problem_id: str) -> tuple[Gene, ...]:
    """The same for both problems."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Drop genes without effect and blocks a thread cannot hold."""
    walk = str(genome["walk"])
    if not walk.endswith("stride") and genome["programs"] != 132:
        return "only strided walks choose the number of programs"
    if not walk.startswith("tile") and genome["rows"] != 1:
        return "only tiles have rows"
    if walk.startswith("tile") and genome["unroll"] != 1:
        return "tiles are not unrolled"
    if not walk.startswith("flat") and genome["bounds"] != "masked":
        return "only flat walks branch on bounds"
    strided = walk.endswith("stride")
    ahead = int(genome["programs"]) * int(genome["rows"]) * int(genome["block"]) * int(genome["unroll"])
    if strided and ahead < LEAST_AHEAD:
        return "too few elements in flight"
    held = int(genome["rows"]) * int(genome["block"]) // (32 * int(genome["warps"]))
    return None if 1 <= held <= 64 else "too many or too few elements a thread"


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    diagonal = problem_id == "matmul_diagonal"
    values = {
        **genome,
        "diagonal": diagonal,
        "flat": str(genome["walk"]).startswith("flat"),
        "scaled": "tl.load(d_ptr + at // COLUMNS)" if diagonal else "s",
        "scaled_masked": "tl.load(d_ptr + at // COLUMNS, mask=at < SIZE)" if diagonal else "s",
        "factor": "d_ptr" if diagonal else "s",
        "load": LOADS[str(genome["load"])],
        "store": STORES[str(genome["store"])],
    }
    return fill(TEMPLATE, **values)


FAMILY = Family(
    name="scaling_triton",
    backend=Backend.TRITON,
    problems=("matmul_scalar", "matmul_diagonal"),
    genes=genes,
    render=render,
    invalid=invalid,
)
