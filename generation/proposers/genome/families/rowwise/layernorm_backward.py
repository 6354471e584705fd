"""The backward pass of layer norm: a row pass for x, a column sum for weight and bias."""

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
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def triton_invalid(genome: Genome) -> str | None:
    """More than registers hold, or too few programs to fill the GPU."""
    plan, warps = genome["plan"], int(genome["warps"])
    held = int(genome["block"]) if plan == "loops" else 4096
    if not 1 <= held / (32 * warps) <= 32:
        return "elements per lane out of bounds"
    if plan in ("partials", "atomic") and not 8 <= int(genome["per_sm"]) * warps <= 64:
        return "too few or too many warps on an SM"
    if not 128 <= int(genome["column_rows"]) * int(genome["column_cols"]) <= 4096:
        return "column tiles out of bounds"
    if plan != "recompute" and plan != "loops" and int(genome["stages"]) > 2:
        return "rows this wide leave no room for more stages"
    return None


LONGEST = 4096
"""Longest row of any workload: what a block holds at once where it holds a row."""


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """Whether a block keeps its rows' column sums, and how those are joined."""
    return (
        shape("plan", "partials", "atomic", "recompute", "warps"),
        shape("walk", "strided", "chunk"),
        shape("reduce", *REDUCE_STYLES),
        shape("vector", 1, 2, 4),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 128, 256, 512, 1024),
        pick("down", 2, 4, 8, 16, 32),
        pick("split", 8, 16, 32, 64),
        pick("per_sm", 1, 2, 4),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
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


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    warps = int(genome["threads"]) // 32
    code = render(
        "rowwise/layernorm_backward.cu",
        **genome,
        longest=LONGEST,
        warp_grid=f"(rows + {warps - 1}) // {warps}" if genome["plan"] == "warps" else "rows",
        exported=instances(int(genome["vector"]), "rows_kernel"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    templated(
        "layernorm_backward_triton",
        Backend.TRITON,
        "layernorm_backward",
        "rowwise/layernorm_backward.py",
        shape("plan", "partials", "atomic", "recompute", "loops"),
        shape("statistics", "centred", "sums"),
        shape("walk", "strided", "chunk"),
        shape("hint", *TRITON_LOADS.values()),
        shape("write", *TRITON_STORES.values()),
        pick("block", 512, 1024, 2048),
        pick("stages", 1, 2, 3),
        pick("warps", 4, 8, 16),
        pick("per_sm", 1, 2, 4, 8),
        pick("split", 8, 16, 32, 64),
        pick("column_rows", 4, 8, 16, 32),
        pick("column_cols", 32, 64, 128),
        invalid=triton_invalid,
        polish=tidy,
    ),
    Family("layernorm_backward_cuda", Backend.CUDA, ("layernorm_backward",), cuda_genes, cuda_text, cuda_invalid),
)
