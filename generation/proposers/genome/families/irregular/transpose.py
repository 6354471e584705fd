"""Transposes of matrices, alone or in batches."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    size = int(genome["block_r"]) * int(genome["block_c"])
    if size > 16384 or size < 512:
        return "tile size"
    if genome["order"] in ("rows", "columns") and genome["waves"] != 4:
        return "waves belong to the persistent and grouped orders"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["order"] in ("rows", "columns") and genome["waves"] != 4:
        return "waves belong to the persistent and grouped orders"
    if int(genome["threads"]) // int(genome["tile"]) > int(genome["tile"]):
        return "more threads than the tile has places"
    return None


FAMILIES = (
    templated(
        "transpose_triton",
        Backend.TRITON,
        ("transpose", "permute_4d"),
        "irregular/transpose.py",
        shape("move", "tile", "scatter", "gather", "flat"),
        shape("order", "rows", "columns", "grouped", "persistent"),
        pick("block_r", 16, 32, 64, 128),
        pick("block_c", 16, 32, 64, 128),
        pick("waves", 2, 4, 8, 16),
        pick("warps", 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "transpose_cuda",
        Backend.CUDA,
        ("transpose", "permute_4d"),
        "irregular/transpose.cu",
        shape("move", "padded", "swizzled", "plain", "registers", "read_along", "write_along"),
        shape("order", "rows", "columns", "grouped", "persistent"),
        pick("tile", 16, 32, 64),
        pick("threads", 64, 128, 256, 512),
        pick("waves", 2, 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
