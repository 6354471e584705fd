"""CUDA kernels for running sums and products along rows, and for one long prefix sum."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.cuda import (
    LOADS,
    STORES,
    instances,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

ROW_PROBLEMS = ("cumsum", "cumprod", "cumsum_reverse", "masked_cumsum")


def row_genes(problem_id: str) -> tuple[Gene, ...]:
    """How a row is cut and how totals of threads are scanned."""
    return (
        shape("plan", "block", "warp", "staged", "two"),
        shape("style", "shuffle", "shared"),
        shape("schedule", "grid", "persistent"),
        shape("vector", 1, 2, 4),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("items", 1, 2, 4, 8),
        pick("split", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8),
    )


def row_invalid(problem_id: str, genome: Genome) -> str | None:
    """More than a row, registers or shared memory, or combinations a plan does not have."""
    threads, piece = int(genome["threads"]), int(genome["items"]) * int(genome["vector"])
    if genome["plan"] != "block" and genome["schedule"] == "persistent":
        return "only whole rows are scheduled"
    if genome["plan"] == "warp" and genome["style"] == "shared":
        return "warps scan by shuffles"
    if genome["plan"] != "warp" and threads * piece > 8192:
        return "a block would hold more than a row"
    if genome["plan"] == "staged" and threads * piece * 4 > 32 * 1024:
        return "more than 32 KiB of shared memory"
    if genome["plan"] == "two" and threads * piece > 4096:
        return "pieces longer than half a row"
    if genome["schedule"] == "persistent" and not 512 <= int(genome["per_sm"]) * threads <= 2048:
        return "too few or too many threads on an SM"
    return None


def row_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    product, masked = problem_id == "cumprod", problem_id == "masked_cumsum"
    functions = ("totals", "kernel") if genome["plan"] == "two" else ("kernel",)
    code = render(
        "rowwise/scan/templates/rows_cuda.py",
        **genome,
        kind="float",
        product=product,
        neutral="1.0f" if product else "0.0f",
        reverse=problem_id == "cumsum_reverse",
        masked=masked,
        parameters="const float* __restrict__ x" + (", const unsigned char* __restrict__ mask" if masked else ""),
        names="x, mask" if masked else "x",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


def long_genes(problem_id: str) -> tuple[Gene, ...]:
    """One pass that looks back, or three kernels in one of two orders."""
    return (
        shape("method", "lookback", "reduce_scan", "scan_add"),
        shape("look", "serial", "warp"),
        shape("style", "shuffle", "shared"),
        shape("vector", 1, 2, 4),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 128, 256, 512, 1024),
        pick("items", 1, 2, 4, 8),
    )


def long_invalid(problem_id: str, genome: Genome) -> str | None:
    """Tiles so small that their number outweighs the data."""
    span = int(genome["threads"]) * int(genome["items"]) * int(genome["vector"])
    if span < (4096 if genome["method"] == "lookback" and genome["look"] == "serial" else 1024):
        return "too many tiles"
    if span > 16384:
        return "more than registers hold"
    return None


def long_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    functions = ("kernel",) if genome["method"] == "lookback" else ("first", "third")
    code = render(
        "rowwise/scan/templates/long_cuda.py",
        **genome,
        kind="int",
        product=False,
        neutral="0",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="row_scan_cuda",
        backend=Backend.CUDA,
        problems=ROW_PROBLEMS,
        genes=row_genes,
        render=row_text,
        invalid=row_invalid,
    ),
    Family(
        name="long_scan_cuda",
        backend=Backend.CUDA,
        problems=("prefix_sum",),
        genes=long_genes,
        render=long_text,
        invalid=long_invalid,
    ),
)
