"""CUDA kernels that scale a matrix by one number or by one number a row: pure memory traffic."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("walk", ("flat", "flat_stride", "row", "row_warp", "tile"), structural=True),
    Gene("order", ("adjacent", "blocked"), structural=True),
    Gene("batch", ("one", "all_loads_first"), structural=True),
    Gene("load", ("plain", "ldg", "ldcs", "ldcg"), structural=True),
    Gene("store", ("plain", "stcs", "stcg", "stwt"), structural=True),
    Gene("vector", (1, 2, 4)),
    Gene("items", (1, 2, 4, 8)),
    Gene("programs", (264, 1056, 4224)),
    Gene("threads", (64, 128, 256, 512, 1024)),
)


LEAST_AHEAD = 132 * 1024
"""Elements a strided grid must have in flight, or memory latency makes it tens of times slower than the rest."""
LOADS = {"plain": "in[{at}]", "ldg": "__ldg(in + {at})", "ldcs": "__ldcs(in + {at})", "ldcg": "__ldcg(in + {at})"}
STORES = {
    "plain": "out[{at}] = {v};",
    "stcs": "__stcs(out + {at}, {v});",
    "stcg": "__stcg(out + {at}, {v});",
    "stwt": "__stwt(out + {at}, {v});",
}


def genes(problem_id: str) -> tuple[Gene, ...]:
    """The same for both problems."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Drop genes without effect."""
    if genome["walk"] != "flat_stride" and genome["programs"] != 264:
        return "only strided walks choose the number of blocks"
    ahead = int(genome["programs"]) * int(genome["threads"]) * int(genome["items"]) * int(genome["vector"])
    if genome["walk"] == "flat_stride" and ahead < LEAST_AHEAD:
        return "too few elements in flight"
    if genome["items"] == 1 and (genome["order"], genome["batch"]) != ("adjacent", "one"):
        return "one item has no order"
    return None


def _body(genome: Genome, diagonal: bool, limit: str, at: str, factor: str) -> str:
    """Load, scale and store a thread's items, one at a time or all loads first."""
    load, store = LOADS[str(genome["load"])].format(at=at), STORES[str(genome["store"])]
    scaled = factor if diagonal else "s"
    index = "const long long i = base + (long long)u * step;"
    if genome["batch"] == "one":
        lines = [
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index}",
            f"    if (i < {limit}) {store.format(at=at, v=f'times({load}, {scaled})')}",
            "}",
        ]
    else:
        lines = [
            "chunk held[ITEMS];",
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index} if (i < {limit}) held[u] = {load}; }}",
            "#pragma unroll",
            f"for (int u = 0; u < ITEMS; ++u) {{ {index}",
            f"    if (i < {limit}) {store.format(at=at, v=f'times(held[u], {scaled})')}",
            "}",
        ]
    return "\n".join(f"        {line}" for line in lines)


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    diagonal = problem_id == "matmul_diagonal"
    values = {
        **genome,
        "diagonal": diagonal,
        "factor": "const float* d" if diagonal else "float s",
        "own": "threadIdx.x" if genome["order"] == "adjacent" else "threadIdx.x * ITEMS",
        "kind": {1: "float", 2: "float2", 4: "float4"}[int(genome["vector"])],
        "body": lambda limit, at, factor: _body(genome, diagonal, limit, at, factor),
    }
    return fill("dense/scaling/templates/cuda.py", **values)


FAMILIES = (
    Family(
        name="scaling_cuda",
        backend=Backend.CUDA,
        problems=("matmul_scalar", "matmul_diagonal"),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
