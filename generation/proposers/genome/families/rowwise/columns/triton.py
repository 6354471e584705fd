"""Triton kernels that reduce the middle dimension of a (batch, length, width) tensor, and RMS norm over channels."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES, tidy
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

LONGEST = {"sum_reduce": 1024, "mean_reduce": 4096, "max_reduce": 512, "argmax": 2048, "argmin": 1024, "rms_norm": 64}
"""Longest reduced dimension of any workload, rounded up to a power of two."""
NEUTRAL = {"argmin": 'float("inf")', "argmax": 'float("-inf")', "max_reduce": 'float("-inf")'}
PLANS: tuple[str, ...] = ("lanes", "scalar", "single", "whole", "split", "atomic")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """How columns are walked and how parts are joined."""
    plans = PLANS
    if problem_id == "rms_norm":
        plans = PLANS[:4]
    elif problem_id not in ("sum_reduce", "mean_reduce"):
        plans = PLANS[:5]
    return (
        shape("plan", *plans),
        shape("finish", *(("same", "second") if problem_id == "rms_norm" else ("same",))),
        shape("order", "columns", "batches"),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("rows", 2, 4, 8, 16, 32),
        pick("cols", 16, 32, 64, 128, 256, 512),
        pick("split", 2, 4, 8, 16),
        pick("stages", 1, 2, 3),
        pick("warps", 1, 2, 4, 8),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
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


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    split = genome["plan"] in ("split", "atomic")
    values = dict(genome) | {
        "problem": problem_id,
        "pair": problem_id.startswith("arg"),
        "sign": "<" if problem_id == "argmin" else ">",
        "fold": {"argmax": "max", "max_reduce": "max", "argmin": "min"}.get(problem_id, "sum"),
        "neutral": NEUTRAL.get(problem_id, "0.0"),
        "hint": LOADS[str(genome["load"])],
        "store": STORES[str(genome["store"])],
        "split": split,
        "split_count": genome["split"] if split else 1,
    }
    return tidy(render("rowwise/columns/templates/triton.py", **values))


FAMILIES = (
    Family(
        name="columns_triton",
        backend=Backend.TRITON,
        problems=tuple(LONGEST),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
