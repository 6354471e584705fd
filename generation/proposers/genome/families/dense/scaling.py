"""A matrix scaled by one number, or by one number per row: pure memory traffic."""

from __future__ import annotations

from typing import Any

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend

LEAST_AHEAD = 132 * 1024
"""Elements a strided grid must have in flight, or memory latency makes it tens of times slower than the rest."""
LOADS = {"plain": "", "evict_first": ', eviction_policy="evict_first"', "cg": ', cache_modifier=".cg"'}
STORES = {
    "plain": "",
    "evict_first": ', eviction_policy="evict_first"',
    "cs": ', cache_modifier=".cs"',
    "wt": ', cache_modifier=".wt"',
}


def _triton_limits(genome: Genome) -> str | None:
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
    return None if 1 <= held <= 64 else "too many or too few elements per thread"


def _triton_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    diagonal = problem_id == "matmul_diagonal"
    return {
        "diagonal": diagonal,
        "flat": str(genome["walk"]).startswith("flat"),
        "scaled": "tl.load(d_ptr + at // COLUMNS)" if diagonal else "s",
        "scaled_masked": "tl.load(d_ptr + at // COLUMNS, mask=at < SIZE)" if diagonal else "s",
        "factor": "d_ptr" if diagonal else "s",
        "load": LOADS[str(genome["load"])],
        "store": STORES[str(genome["store"])],
    }


def _cuda_limits(genome: Genome) -> str | None:
    if genome["walk"] != "flat_stride" and genome["programs"] != 264:
        return "only strided walks choose the number of blocks"
    ahead = int(genome["programs"]) * int(genome["threads"]) * int(genome["items"]) * int(genome["vector"])
    if genome["walk"] == "flat_stride" and ahead < LEAST_AHEAD:
        return "too few elements in flight"
    if genome["items"] == 1 and (genome["order"], genome["batch"]) != ("adjacent", "one"):
        return "one item has no order"
    return None


def _cuda_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    diagonal = problem_id == "matmul_diagonal"
    return {
        "diagonal": diagonal,
        "factor": "const float* d" if diagonal else "float s",
        "own": "threadIdx.x" if genome["order"] == "adjacent" else "threadIdx.x * ITEMS",
        "kind": {1: "float", 2: "float2", 4: "float4"}[int(genome["vector"])],
    }


FAMILIES = (
    templated(
        "scaling_triton",
        Backend.TRITON,
        ("matmul_scalar", "matmul_diagonal"),
        "dense/scaling.py",
        shape("walk", "flat", "flat_stride", "tile", "tile_stride", "row"),
        shape("unroll", 1, 2, 4),
        shape("bounds", "masked", "branch"),
        shape("load", "plain", "evict_first", "cg"),
        shape("store", "plain", "evict_first", "cs", "wt"),
        pick("programs", 132, 528, 1056, 2112),
        pick("rows", 1, 2, 4, 8),
        pick("block", 128, 256, 512, 1024, 2048, 4096),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
        values=_triton_values,
    ),
    templated(
        "scaling_cuda",
        Backend.CUDA,
        ("matmul_scalar", "matmul_diagonal"),
        "dense/scaling.cu",
        shape("walk", "flat", "flat_stride", "row", "row_warp", "tile"),
        shape("order", "adjacent", "blocked"),
        shape("batch", "one", "all_loads_first"),
        shape("load", "plain", "ldg", "ldcs", "ldcg"),
        shape("store", "plain", "stcs", "stcg", "stwt"),
        pick("vector", 1, 2, 4),
        pick("items", 1, 2, 4, 8),
        pick("programs", 264, 1056, 4224),
        pick("threads", 64, 128, 256, 512, 1024),
        invalid=_cuda_limits,
        values=_cuda_values,
    ),
)
