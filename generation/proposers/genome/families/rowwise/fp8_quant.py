"""Per-group float8 quantisation; Triton rounds bits by hand, so any GPU runs it."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] != "stride" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    if int(genome["rows"]) * 128 > int(genome["warps"]) * 32 * 64:
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] != "lanes" and genome["lanes"] != 16:
        return "lanes belong to the shared group"
    if genome["method"] == "block" and genome["threads"] != 128:
        return "one thread per element"
    if genome["walk"] == "once" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    return None


FAMILIES = (
    templated(
        "fp8_quant_triton",
        Backend.TRITON,
        "fp8_quant",
        "rowwise/fp8_quant.py",
        shape("method", "groups", "stride", "two_pass"),
        shape("rounding", "integer", "float"),
        shape("divide", "exact", "reciprocal"),
        shape("hint", "", ', eviction_policy="evict_first"'),
        pick("rows", 1, 2, 4, 8, 16, 32, 64),
        pick("warps", 1, 2, 4, 8),
        pick("waves", 4, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "fp8_quant_cuda",
        Backend.CUDA,
        "fp8_quant",
        "rowwise/fp8_quant.cu",
        shape("method", "lanes", "lanes", "block", "two_pass"),
        shape("lanes", 4, 8, 16, 32),
        shape("walk", "once", "stride"),
        shape("rounding", "library", "bits"),
        shape("divide", "exact", "reciprocal"),
        pick("threads", 64, 128, 256, 512),
        pick("waves", 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
