"""Triton kernels that normalise by statistics of many rows at once: batch, group, instance and Frobenius norm.

The tensor is seen as rows of one image plane each; a first kernel measures pieces of rows, their results are combined
by group, and a last kernel applies them.
"""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES, tidy
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

PROBLEMS = ("batch_norm", "group_norm", "instance_norm", "frobenius_norm")
AFFINE = ("batch_norm", "group_norm")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """How statistics are taken and combined, and how they are applied."""
    return (
        shape("algorithm", *(("sums",) if problem_id == "frobenius_norm" else ("sums", "centred"))),
        shape("combine", "atomic", "finalize", "inline"),
        shape("inner", "lanes", "scalar"),
        shape("walk", "forward", "backward", "strided"),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", 512, 1024, 2048, 4096, 8192),
        pick("split", 1, 2, 4, 8),
        pick("stages", 1, 2, 3),
        pick("warps", 2, 4, 8, 16),
        pick("apply_block", 512, 1024, 2048, 4096, 8192),
        pick("apply_warps", 2, 4, 8, 16),
        pick("per_sm", 2, 4, 8),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or combining that costs more than measuring."""
    for block, warps in (("block", "warps"), ("apply_block", "apply_warps")):
        share = int(genome[block]) / (32 * int(genome[warps]))
        if not 1 <= share <= 64:
            return f"{share:g} elements per lane"
    if problem_id == "frobenius_norm" and genome["combine"] == "inline" and int(genome["split"]) > 1:
        return "every program would read thousands of parts"
    if genome["walk"] == "strided" and not 8 <= int(genome["per_sm"]) * int(genome["apply_warps"]) <= 64:
        return "too few or too many warps on an SM"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    frobenius = problem_id == "frobenius_norm"
    centred = genome["algorithm"] == "centred"
    values = dict(genome) | {"store": STORES[str(genome["store"])]}
    return tidy(
        render(
            "rowwise/grouped/templates/triton.py",
            **values,
            problem=problem_id,
            frobenius=frobenius,
            affine=problem_id in AFFINE,
            centred=centred,
            sums=not frobenius and not centred,
            hint=LOADS[str(genome["load"])],
        )
    )


FAMILIES = (
    Family(
        name="grouped_triton",
        backend=Backend.TRITON,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
