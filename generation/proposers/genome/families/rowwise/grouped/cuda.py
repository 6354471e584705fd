"""CUDA kernels that normalise by statistics of many rows at once: batch, group, instance and Frobenius norm.

The tensor is seen as rows of one image plane each; a first kernel measures pieces of rows, their results are combined
by group, and a last kernel applies them.
"""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.cuda import (
    LOADS,
    REDUCE_STYLES,
    STORES,
    instances,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

PROBLEMS = ("batch_norm", "group_norm", "instance_norm", "frobenius_norm")
AFFINE = ("batch_norm", "group_norm")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """How statistics are taken and combined, and how they are applied."""
    return (
        shape("combine", "atomic", "finalize", "inline", "last"),
        shape("reduce", *REDUCE_STYLES),
        shape("walk", "forward", "backward", "strided"),
        shape("vector", 1, 2, 4, 8),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4),
        pick("split", 1, 2, 4, 8),
        pick("apply_threads", 64, 128, 256, 512),
        pick("apply_unroll", 1, 2, 4, 8),
        pick("per_sm", 2, 4, 8),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Combining that costs more than measuring, or too few threads to hide memory."""
    if problem_id == "frobenius_norm" and genome["combine"] == "inline":
        return "every block would read thousands of parts"
    if genome["walk"] == "strided" and not 512 <= int(genome["per_sm"]) * int(genome["apply_threads"]) <= 2048:
        return "too few or too many threads on an SM"
    if int(genome["apply_unroll"]) * int(genome["vector"]) > 32:
        return "more than 32 elements per thread"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    code = render(
        "rowwise/grouped/templates/cuda.py",
        **genome,
        problem=problem_id,
        frobenius=problem_id == "frobenius_norm",
        affine=problem_id in AFFINE,
        exported=instances(int(genome["vector"]), "measure", "apply"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="grouped_cuda",
        backend=Backend.CUDA,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
