"""A paged int8 cache, collected and dequantised."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["walk"] != "stride" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    if int(genome["rows"]) * 128 > int(genome["warps"]) * 32 * 128:
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["walk"] != "page" and genome["scale"] != "direct":
        return "scales are staged by page"
    if genome["walk"] != "line" and genome["lanes"] != 8:
        return "lanes belong to the line walk"
    if genome["walk"] != "stride" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    if genome["walk"] in ("line", "flat") and genome["unroll"] != 1:
        return "nothing to unroll"
    return None


FAMILIES = (
    templated(
        "dequant_triton",
        Backend.TRITON,
        "paged_kv_dequant",
        "sequence/dequant.py",
        shape("walk", "page", "lines", "flat", "stride", "token"),
        shape("collect", "inside", "separate"),
        pick("rows", 1, 2, 4, 8, 16, 32, 64),
        pick("warps", 1, 2, 4, 8),
        pick("waves", 2, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "dequant_cuda",
        Backend.CUDA,
        "paged_kv_dequant",
        "sequence/dequant.cu",
        shape("walk", "page", "line", "flat", "stride"),
        shape("vec", 1, 4, 8, 16),
        shape("scale", "direct", "shared"),
        pick("lanes", 4, 8, 16, 32),
        pick("threads", 64, 128, 256, 512),
        pick("waves", 4, 8, 16),
        pick("unroll", 1, 2, 4),
        invalid=_cuda_limits,
    ),
)
