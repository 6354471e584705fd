"""CUDA kernels that reduce the middle dimension of a (batch, length, width) tensor, and RMS norm over channels."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.columns.triton import LONGEST
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


def genes(problem_id: str) -> tuple[Gene, ...]:
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
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("across", 16, 32, 64, 128, 256),
        pick("down", 1, 2, 4, 8, 16, 32),
        pick("unroll", 1, 2, 4, 8),
        pick("parts_count", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
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


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    functions = ("kernel", "scale") if genome["finish"] == "second" else ("kernel",)
    pair = problem_id.startswith("arg")
    step = "threadIdx.y + k" if genome["join"] == "tree" else "k"
    base = "threadIdx.y" if genome["join"] == "tree" else "0"
    code = render(
        "rowwise/columns/templates/cuda.py",
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
    Family(
        name="columns_cuda",
        backend=Backend.CUDA,
        problems=tuple(LONGEST),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
