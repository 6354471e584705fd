"""Norms by statistics of many rows at once: batch, group, instance and Frobenius norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts import (
    CUDA_LOADS,
    CUDA_STORES,
    REDUCE_STYLES,
    TRITON_LOADS,
    TRITON_STORES,
    instances,
    tidy,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

PROBLEMS = ("batch_norm", "group_norm", "instance_norm", "frobenius_norm")
AFFINE = ("batch_norm", "group_norm")


def triton_genes(problem_id: str) -> tuple[Gene, ...]:
    """How statistics are taken and combined, and how they are applied."""
    return (
        shape("algorithm", *(("sums",) if problem_id == "frobenius_norm" else ("sums", "centred"))),
        shape("combine", "atomic", "finalize", "inline"),
        shape("inner", "lanes", "scalar"),
        shape("walk", "forward", "backward", "strided"),
        shape("load", *TRITON_LOADS),
        shape("store", *TRITON_STORES),
        pick("block", 512, 1024, 2048, 4096, 8192),
        pick("split", 1, 2, 4, 8),
        pick("stages", 1, 2, 3),
        pick("warps", 2, 4, 8, 16),
        pick("apply_block", 512, 1024, 2048, 4096, 8192),
        pick("apply_warps", 2, 4, 8, 16),
        pick("per_sm", 2, 4, 8),
    )


def triton_invalid(problem_id: str, genome: Genome) -> str | None:
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


def triton_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    frobenius = problem_id == "frobenius_norm"
    centred = genome["algorithm"] == "centred"
    values = dict(genome) | {"store": TRITON_STORES[str(genome["store"])]}
    return tidy(
        render(
            "rowwise/grouped.py",
            **values,
            problem=problem_id,
            frobenius=frobenius,
            affine=problem_id in AFFINE,
            centred=centred,
            sums=not frobenius and not centred,
            hint=TRITON_LOADS[str(genome["load"])],
        )
    )


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """How statistics are taken and combined, and how they are applied."""
    return (
        shape("combine", "atomic", "finalize", "inline", "last"),
        shape("reduce", *REDUCE_STYLES),
        shape("walk", "forward", "backward", "strided"),
        shape("vector", 1, 2, 4, 8),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4),
        pick("split", 1, 2, 4, 8),
        pick("apply_threads", 64, 128, 256, 512),
        pick("apply_unroll", 1, 2, 4, 8),
        pick("per_sm", 2, 4, 8),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
    """Combining that costs more than measuring, or too few threads to hide memory."""
    if problem_id == "frobenius_norm" and genome["combine"] == "inline":
        return "every block would read thousands of parts"
    if genome["walk"] == "strided" and not 512 <= int(genome["per_sm"]) * int(genome["apply_threads"]) <= 2048:
        return "too few or too many threads on an SM"
    if int(genome["apply_unroll"]) * int(genome["vector"]) > 32:
        return "more than 32 elements per thread"
    return None


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    code = render(
        "rowwise/grouped.cu",
        **genome,
        problem=problem_id,
        frobenius=problem_id == "frobenius_norm",
        affine=problem_id in AFFINE,
        exported=instances(int(genome["vector"]), "measure", "apply"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family("grouped_triton", Backend.TRITON, PROBLEMS, triton_genes, triton_text, triton_invalid),
    Family("grouped_cuda", Backend.CUDA, PROBLEMS, cuda_genes, cuda_text, cuda_invalid),
)
