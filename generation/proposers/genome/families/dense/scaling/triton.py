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
    return fill("dense/scaling/templates/triton.py", **values)


FAMILIES = (
    Family(
        name="scaling_triton",
        backend=Backend.TRITON,
        problems=("matmul_scalar", "matmul_diagonal"),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
