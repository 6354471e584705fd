"""Fourier transforms: in registers, in shared memory, or passes over device memory."""

from __future__ import annotations

import math
from collections.abc import Callable

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _roots(radix: int, part: Callable[[float], float]) -> list[str]:
    return [f"{part(-2 * math.pi * k / radix):.9g}" for k in range(radix)]


_TABLES = {
    "cosines": {radix: _roots(radix, math.cos) for radix in (2, 4, 8, 16)},
    "sines": {radix: _roots(radix, math.sin) for radix in (2, 4, 8, 16)},
}


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "registers":
        if genome["radix"] != 2 or genome["block"] != 128:
            return "the register form has one radix"
        if int(genome["rows"]) * 1024 > 16 * 32 * int(genome["warps"]):
            return "too many values per thread"
    elif genome["rows"] != 1:
        return "rows belong to the register form"
    elif genome["turns"] == "direct" and int(genome["radix"]) > 4:
        return "many angle functions compile for minutes"
    return None


FAMILIES = (
    templated(
        "fft_triton",
        Backend.TRITON,
        "fft_butterfly",
        "scientific/fft.py",
        shape("method", "registers", "passes", "passes"),
        shape("radix", 2, 4, 8, 16),
        shape("turns", "chain", "direct"),
        pick("rows", 1, 2, 4),
        pick("block", 64, 128, 256, 512),
        pick("warps", 1, 2, 4, 8, 16),
        invalid=_triton_limits,
        values=lambda problem_id, genome: _TABLES,
    ),
    templated(
        "fft_cuda",
        Backend.CUDA,
        "fft_butterfly",
        "scientific/fft.cu",
        shape("place", "shared", "shared", "memory"),
        shape("radix", 2, 4, 8, 16),
        shape("turns", "exact", "fast"),
        shape("chain", "direct", "multiply"),
        pick("threads", 32, 64, 128, 256, 512),
    ),
)
