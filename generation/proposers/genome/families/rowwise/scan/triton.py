"""Triton kernels for running sums and products along rows, and for one long prefix sum."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES, tidy
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend

ROW_PROBLEMS = ("cumsum", "cumprod", "cumsum_reverse", "masked_cumsum")


def row_genes(problem_id: str) -> tuple[Gene, ...]:
    """How a row is cut, and how a piece is scanned."""
    sums = problem_id != "cumprod"
    return (
        shape("plan", "whole", "chunk", "two", *(("nested", "dot") if sums else ())),
        shape("primitive", "library", "associative"),
        shape("gate", *(("select", "multiply") if problem_id == "masked_cumsum" else ("none",))),
        shape("rows", 1, 2, 4),
        shape("schedule", "grid", "persistent"),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", 256, 512, 1024, 2048, 4096),
        pick("inner", 16, 32, 64),
        pick("per_sm", 2, 4, 8, 16),
        pick("stages", 1, 2, 3),
        pick("warps", 1, 2, 4, 8, 16),
    )


def row_invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or tiles that do not fit the plan."""
    plan, rows, lanes = genome["plan"], int(genome["rows"]), 32 * int(genome["warps"])
    held = rows * (8192 if plan == "whole" else int(genome["block"]))
    if not lanes <= held <= 64 * lanes:
        return "elements per lane out of bounds"
    if plan == "chunk" and rows > 1:
        return "a scan carried along a tile of rows, which Triton 3.6 does not compile"
    if plan in ("two", "nested", "dot") and rows > 1:
        return "only one row at a time"
    if plan == "two" and genome["schedule"] == "persistent":
        return "two kernels take their grid from the pieces"
    if plan in ("nested", "dot") and int(genome["block"]) // int(genome["inner"]) < 16:
        return "fewer than 16 inner rows"
    if plan in ("nested", "dot") and genome["primitive"] == "associative":
        return "nested scans use the library's"
    if genome["schedule"] == "persistent" and not 8 <= int(genome["per_sm"]) * int(genome["warps"]) <= 64:
        return "too few or too many warps on an SM"
    return None


def row_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    values = dict(genome) | {"store": STORES[str(genome["store"])]}
    product = problem_id == "cumprod"
    return tidy(
        render(
            "rowwise/scan/templates/rows_triton.py",
            **values,
            product=product,
            neutral="1.0" if product else "0.0",
            reverse=problem_id == "cumsum_reverse",
            masked=problem_id == "masked_cumsum",
            axis=1 if int(genome["rows"]) > 1 else 0,
            hint=LOADS[str(genome["load"])],
        )
    )


def long_invalid(genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or too many parts to fold again and again."""
    share = int(genome["block"]) / (32 * int(genome["warps"]))
    if not 1 <= share <= 64:
        return "elements per lane out of bounds"
    if int(genome["block"]) * int(genome["steps"]) < (16384 if genome["middle"] == "fold" else 4096):
        return "too many parts"
    if genome["nested"] and genome["method"] == "scan_add":
        return "only the rescan is nested"
    return None


FAMILIES = (
    Family(
        name="row_scan_triton",
        backend=Backend.TRITON,
        problems=ROW_PROBLEMS,
        genes=row_genes,
        render=row_text,
        invalid=row_invalid,
    ),
    templated(
        "long_scan_triton",
        Backend.TRITON,
        "prefix_sum",
        "rowwise/scan/templates/long_triton.py",
        shape("method", "reduce_scan", "scan_add"),
        shape("middle", "kernel", "fold"),
        shape("nested", False, True),
        shape("primitive", "library", "associative"),
        shape("hint", *LOADS.values()),
        shape("write", *STORES.values()),
        pick("inner", 16, 32, 64),
        pick("block", 512, 1024, 2048, 4096, 8192, 16384),
        pick("steps", 1, 2, 4, 8, 16),
        pick("width", 512, 1024, 2048),
        pick("stages", 1, 2),
        pick("warps", 2, 4, 8, 16),
        invalid=long_invalid,
    ),
)
