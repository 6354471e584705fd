"""CUDA kernels for the backward pass of layer norm: a row pass for x, a column sum for weight and bias."""

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

LONGEST = 4096
"""Longest row of any workload: what a block holds at once where it holds a row."""


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Whether a block keeps its rows' column sums, and how those are joined."""
    return (
        shape("plan", "partials", "atomic", "recompute", "warps"),
        shape("walk", "strided", "chunk"),
        shape("reduce", *REDUCE_STYLES),
        shape("vector", 1, 2, 4),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 128, 256, 512, 1024),
        pick("down", 2, 4, 8, 16, 32),
        pick("split", 8, 16, 32, 64),
        pick("per_sm", 1, 2, 4),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """More than registers hold, or too few threads to hide memory."""
    threads, plan = int(genome["threads"]), genome["plan"]
    if plan in ("partials", "atomic"):
        if LONGEST / threads > 16:
            return "more than 16 columns per thread"
        if not 512 <= threads * int(genome["per_sm"]) <= 2048:
            return "too few or too many threads on an SM"
    elif genome["walk"] == "chunk":
        return "rows come from the grid"
    if plan == "warps" and genome["reduce"] != "shuffle":
        return "warps reduce by shuffles"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    warps = int(genome["threads"]) // 32
    code = render(
        "rowwise/layernorm_backward/templates/cuda.py",
        **genome,
        longest=LONGEST,
        warp_grid=f"(rows + {warps - 1}) // {warps}" if genome["plan"] == "warps" else "rows",
        exported=instances(int(genome["vector"]), "rows_kernel"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="layernorm_backward_cuda",
        backend=Backend.CUDA,
        problems=("layernorm_backward",),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
