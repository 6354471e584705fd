"""Tokens brought into expert order: count, scan, place, move."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["move"] == "scatter" and genome["rows"] != 1:
        return "rows belong to the gathers"
    if genome["move"] == "tile" and int(genome["rows"]) * int(genome["block"]) > 8192:
        return "tile too large"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["move"] == "flat" and genome["unroll"] != 4:
        return "the flat move has no loop"
    if genome["rank"] == "match" and int(genome["chunk"]) > 512:
        return "shared memory"
    return None


FAMILIES = (
    templated(
        "expert_order_triton",
        Backend.TRITON,
        "moe_permute",
        "irregular/expert_order.py",
        shape("move", "gather", "tile", "scatter"),
        shape("rank", "compare", "cumulate"),
        shape("count", "histogram", "compare"),
        shape("word", "int16", "int32"),
        pick("chunk", 64, 128, 256),
        pick("rows", 1, 2, 4, 8),
        pick("block", 128, 256, 512, 1024, 2048),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "expert_order_cuda",
        Backend.CUDA,
        "moe_permute",
        "irregular/expert_order.cu",
        shape("rank", "compare", "match", "serial"),
        shape("move", "block", "warp", "flat", "scatter"),
        shape("word", "unsigned short", "unsigned", "uint2", "uint4"),
        pick("chunk", 64, 128, 256, 512),
        pick("threads", 64, 128, 256),
        pick("unroll", 1, 2, 4),
        invalid=_cuda_limits,
    ),
)
