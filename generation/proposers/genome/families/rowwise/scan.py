"""Running sums and products along rows, and one long prefix sum."""

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
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend

ROW_PROBLEMS = ("cumsum", "cumprod", "cumsum_reverse", "masked_cumsum")


def triton_row_genes(problem_id: str) -> tuple[Gene, ...]:
    """How a row is cut, and how a piece is scanned."""
    sums = problem_id != "cumprod"
    return (
        shape("plan", "whole", "chunk", "two", *(("nested", "dot") if sums else ())),
        shape("primitive", "library", "associative"),
        shape("gate", *(("select", "multiply") if problem_id == "masked_cumsum" else ("none",))),
        shape("rows", 1, 2, 4),
        shape("schedule", "grid", "persistent"),
        shape("load", *TRITON_LOADS),
        shape("store", *TRITON_STORES),
        pick("block", 256, 512, 1024, 2048, 4096),
        pick("inner", 16, 32, 64),
        pick("per_sm", 2, 4, 8, 16),
        pick("stages", 1, 2, 3),
        pick("warps", 1, 2, 4, 8, 16),
    )


def triton_row_invalid(problem_id: str, genome: Genome) -> str | None:
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


def triton_row_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    values = dict(genome) | {"store": TRITON_STORES[str(genome["store"])]}
    product = problem_id == "cumprod"
    return tidy(
        render(
            "rowwise/scan.py#rows",
            **values,
            product=product,
            neutral="1.0" if product else "0.0",
            reverse=problem_id == "cumsum_reverse",
            masked=problem_id == "masked_cumsum",
            axis=1 if int(genome["rows"]) > 1 else 0,
            hint=TRITON_LOADS[str(genome["load"])],
        )
    )


def triton_long_invalid(genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or too many parts to fold again and again."""
    share = int(genome["block"]) / (32 * int(genome["warps"]))
    if not 1 <= share <= 64:
        return "elements per lane out of bounds"
    if int(genome["block"]) * int(genome["steps"]) < (16384 if genome["middle"] == "fold" else 4096):
        return "too many parts"
    if genome["nested"] and genome["method"] == "scan_add":
        return "only the rescan is nested"
    return None


def cuda_row_genes(problem_id: str) -> tuple[Gene, ...]:
    """How a row is cut and how totals of threads are scanned."""
    return (
        shape("plan", "block", "warp", "staged", "two"),
        shape("style", "shuffle", "shared"),
        shape("schedule", "grid", "persistent"),
        shape("vector", 1, 2, 4),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("items", 1, 2, 4, 8),
        pick("split", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8),
    )


def cuda_row_invalid(problem_id: str, genome: Genome) -> str | None:
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


def cuda_row_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    product, masked = problem_id == "cumprod", problem_id == "masked_cumsum"
    functions = ("totals", "kernel") if genome["plan"] == "two" else ("kernel",)
    code = render(
        "rowwise/scan.cu#rows",
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


def cuda_long_genes(problem_id: str) -> tuple[Gene, ...]:
    """One pass that looks back, or three kernels in one of two orders."""
    return (
        shape("method", "lookback", "reduce_scan", "scan_add"),
        shape("look", "serial", "warp"),
        shape("style", "shuffle", "shared"),
        shape("vector", 1, 2, 4),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 128, 256, 512, 1024),
        pick("items", 1, 2, 4, 8),
    )


def cuda_long_invalid(problem_id: str, genome: Genome) -> str | None:
    """Tiles so small that their number outweighs the data."""
    span = int(genome["threads"]) * int(genome["items"]) * int(genome["vector"])
    if span < (4096 if genome["method"] == "lookback" and genome["look"] == "serial" else 1024):
        return "too many tiles"
    if span > 16384:
        return "more than registers hold"
    return None


def cuda_long_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    functions = ("kernel",) if genome["method"] == "lookback" else ("first", "third")
    code = render(
        "rowwise/scan.cu#long",
        **genome,
        kind="int",
        product=False,
        neutral="0",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family("row_scan_triton", Backend.TRITON, ROW_PROBLEMS, triton_row_genes, triton_row_text, triton_row_invalid),
    templated(
        "long_scan_triton",
        Backend.TRITON,
        "prefix_sum",
        "rowwise/scan.py#long",
        shape("method", "reduce_scan", "scan_add"),
        shape("middle", "kernel", "fold"),
        shape("nested", False, True),
        shape("primitive", "library", "associative"),
        shape("hint", *TRITON_LOADS.values()),
        shape("write", *TRITON_STORES.values()),
        pick("inner", 16, 32, 64),
        pick("block", 512, 1024, 2048, 4096, 8192, 16384),
        pick("steps", 1, 2, 4, 8, 16),
        pick("width", 512, 1024, 2048),
        pick("stages", 1, 2),
        pick("warps", 2, 4, 8, 16),
        invalid=triton_long_invalid,
    ),
    Family("row_scan_cuda", Backend.CUDA, ROW_PROBLEMS, cuda_row_genes, cuda_row_text, cuda_row_invalid),
    Family("long_scan_cuda", Backend.CUDA, ("prefix_sum",), cuda_long_genes, cuda_long_text, cuda_long_invalid),
)
