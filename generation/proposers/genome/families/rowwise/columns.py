"""Reductions of the middle dimension of a (batch, length, width) tensor, and RMS norm over channels."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts import (
    CUDA_LOADS,
    CUDA_STORES,
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

LONGEST = {"sum_reduce": 1024, "mean_reduce": 4096, "max_reduce": 512, "argmax": 2048, "argmin": 1024, "rms_norm": 64}
"""Longest reduced dimension of any workload, rounded up to a power of two."""
NEUTRAL = {"argmin": 'float("inf")', "argmax": 'float("-inf")', "max_reduce": 'float("-inf")'}
TRITON_PLANS: tuple[str, ...] = ("lanes", "scalar", "single", "whole", "split", "atomic")


def triton_genes(problem_id: str) -> tuple[Gene, ...]:
    """How columns are walked and how parts are joined."""
    plans = TRITON_PLANS
    if problem_id == "rms_norm":
        plans = TRITON_PLANS[:4]
    elif problem_id not in ("sum_reduce", "mean_reduce"):
        plans = TRITON_PLANS[:5]
    return (
        shape("plan", *plans),
        shape("finish", *(("same", "second") if problem_id == "rms_norm" else ("same",))),
        shape("order", "columns", "batches"),
        shape("load", *TRITON_LOADS),
        shape("store", *TRITON_STORES),
        pick("rows", 2, 4, 8, 16, 32),
        pick("cols", 16, 32, 64, 128, 256, 512),
        pick("split", 2, 4, 8, 16),
        pick("stages", 1, 2, 3),
        pick("warps", 1, 2, 4, 8),
    )


def triton_invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, or more than registers hold."""
    plan, cols, lanes = genome["plan"], int(genome["cols"]), 32 * int(genome["warps"])
    held = cols * (LONGEST[problem_id] if plan == "whole" else 1 if plan == "single" else int(genome["rows"]))
    if held < lanes:
        return "fewer elements than lanes"
    if held > (32 if problem_id.startswith("arg") else 64) * lanes:
        return "more elements per lane than registers hold"
    if plan == "single" and cols < 64:
        return "too few columns for one row at a time"
    if (
        plan == "single"
        and problem_id == "rms_norm"
        and genome["finish"] == "same"
        and cols * int(genome["rows"]) > 64 * lanes
    ):
        return "the second sweep holds more than registers"
    return None


def triton_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    split = genome["plan"] in ("split", "atomic")
    values = dict(genome) | {
        "problem": problem_id,
        "pair": problem_id.startswith("arg"),
        "sign": "<" if problem_id == "argmin" else ">",
        "fold": {"argmax": "max", "max_reduce": "max", "argmin": "min"}.get(problem_id, "sum"),
        "neutral": NEUTRAL.get(problem_id, "0.0"),
        "hint": TRITON_LOADS[str(genome["load"])],
        "store": TRITON_STORES[str(genome["store"])],
        "split": split,
        "split_count": genome["split"] if split else 1,
    }
    return tidy(render("rowwise/columns.py", **values))


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """How columns are walked and how parts are joined."""
    if problem_id == "rms_norm":
        ends = (shape("combine", "none"), shape("finish", "reread", "held", "second"))
    else:
        sums = problem_id in ("sum_reduce", "mean_reduce")
        ends = (shape("combine", "none", "second", *(("atomic",) if sums else ())), shape("finish", "none"))
    return (
        *ends,
        shape("join", "tree", "serial"),
        shape("order", "columns", "batches"),
        shape("vector", 1, 2, 4, 8),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("across", 16, 32, 64, 128, 256),
        pick("down", 1, 2, 4, 8, 16, 32),
        pick("unroll", 1, 2, 4, 8),
        pick("parts_count", 1, 2, 4, 8, 16),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
    """Blocks out of bounds, too much shared memory or registers, or parts without anything that joins them."""
    across, down, vector = int(genome["across"]), int(genome["down"]), int(genome["vector"])
    pair = problem_id.startswith("arg")
    if not 64 <= across * down <= 1024:
        return "threads out of bounds"
    if across * down * vector * (8 if pair else 4) > 48 * 1024:
        return "more than 48 KiB of shared memory"
    if (genome["combine"] == "none") != (int(genome["parts_count"]) == 1):
        return "parts and their joining go together"
    if genome["finish"] == "held" and (64 // int(genome["down"])) * vector > 64:
        return "more than 64 elements per thread"
    if down == 1 and genome["join"] == "serial":
        return "nothing to join"
    return None


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    functions = ("kernel", "scale") if genome["finish"] == "second" else ("kernel",)
    pair = problem_id.startswith("arg")
    step = "threadIdx.y + k" if genome["join"] == "tree" else "k"
    base = "threadIdx.y" if genome["join"] == "tree" else "0"
    code = render(
        "rowwise/columns.cu",
        **genome,
        problem=problem_id,
        pair=pair,
        kind="long long" if pair else "float",
        neutral={"argmin": "__int_as_float(0x7f800000)", "argmax": "__int_as_float(0xff800000)"}.get(
            problem_id, "__int_as_float(0xff800000)" if problem_id == "max_reduce" else "0.0f"
        ),
        hold=max(1, LONGEST["rms_norm"] // int(genome["down"])),
        own=lambda name: f"shared_{name}[{base}][at]",
        other=lambda name: f"shared_{name}[{step}][at]",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family("columns_triton", Backend.TRITON, tuple(LONGEST), triton_genes, triton_text, triton_invalid),
    Family("columns_cuda", Backend.CUDA, tuple(LONGEST), cuda_genes, cuda_text, cuda_invalid),
)
