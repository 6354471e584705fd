"""Triton kernels of the matrix-vector product: who sums a row, and how its parts are joined."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("parts", (1, 2, 4, 8, 16, 32), structural=True),
    Gene("join", ("kernel", "last"), structural=True),
    Gene("spread", ("block", "strided"), structural=True),
    Gene("sum", ("late", "early"), structural=True),
    Gene("tail", ("masked", "peeled"), structural=True),
    Gene("evict", ("none", "first"), structural=True),
    Gene("rows", (1, 2, 4, 8)),
    Gene("block", (256, 512, 1024, 2048, 4096)),
    Gene("warps", (2, 4, 8)),
    Gene("stages", (2, 4)),
)


def genes(problem_id: str) -> tuple[Gene, ...]:
    """The same for every problem."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Keep sums in registers and drop genes without effect."""
    if genome["parts"] == 1 and (genome["join"], genome["spread"]) != ("kernel", "block"):
        return "one part needs no joining"
    held = int(genome["rows"]) * int(genome["block"]) // (32 * int(genome["warps"]))
    if held > 64 or held < 1:
        return "too many or too few elements a thread"
    return None


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    evict = ', eviction_policy="evict_first"' if genome["evict"] == "first" else ""
    last = genome["parts"] != 1 and genome["join"] == "last"
    remains = "k_last < k_to"
    if genome["parts"] != 1:
        remains = "(k_last < k_to) & (k_last >= k_from)"
        remains += " & ((k_last - k_from) % step == 0)" if genome["spread"] == "strided" else ""
    extra = "part_ptr, count_ptr, " if last else ""
    values = {
        **genome,
        "remains": remains,
        "extra": extra,
        "evict": evict,
        "last": last,
        "late": genome["sum"] == "late",
    }
    return fill("dense/matrix_vector/templates/triton.py", **values)


FAMILIES = (
    Family(
        name="matrix_vector_triton",
        backend=Backend.TRITON,
        problems=("matmul_vector",),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
