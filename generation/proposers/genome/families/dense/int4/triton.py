"""Triton kernels of the product with 4-bit weights: where nibbles become numbers and where scales are applied."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("unpack", ("halves", "interleave", "first"), structural=True),
    Gene("scaled", ("weights", "sums"), structural=True),
    Gene("zero", ("weights", "folded"), structural=True),
    Gene("swapped", (False, True), structural=True),
    Gene("split_k", (1, 2, 4, 8, 16), structural=True),
    Gene("evict", ("none", "first"), structural=True),
    Gene("block_n", (16, 32, 64, 128)),
    Gene("block_k", (64, 128)),
    Gene("warps", (2, 4, 8)),
    Gene("stages", (2, 3, 4, 5)),
)

# Two operands' orders of one product: weights on the right, or on the left with the sums transposed.


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Genes of the 4-bit product."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Folding the zero point needs unscaled sums; unpacking first leaves nothing to fold or scale."""
    if genome["zero"] == "folded" and genome["scaled"] == "weights":
        return "a zero point folded into sums needs the sums unscaled"
    if genome["unpack"] == "first" and (genome["scaled"], genome["zero"]) != ("weights", "weights"):
        return "weights unpacked first are already scaled"
    if int(genome["block_n"]) * 16 // (32 * int(genome["warps"])) < 4:
        return "too few sums a thread"
    if genome["block_n"] == 16 and genome["swapped"]:
        return "a tile of sixteen by sixteen is its own transpose"
    return None


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    values = {
        **genome,
        "weights": "w_ptr" if genome["unpack"] == "first" else "packed_ptr, scale_ptr",
        "weight_args": "w" if genome["unpack"] == "first" else "packed, scale",
        "span": "k_span, " if genome["split_k"] != 1 else "",
        "evict": ', eviction_policy="evict_first"' if genome["evict"] == "first" else "",
        "shift": "" if genome["zero"] == "folded" else " - 8.0",
        "carry": ", acc" if genome["scaled"] == "weights" else "",
    }
    return fill("dense/int4/templates/triton.py", **values)


FAMILIES = (
    Family(
        name="int4_triton",
        backend=Backend.TRITON,
        problems=("int4_weight_gemm",),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
