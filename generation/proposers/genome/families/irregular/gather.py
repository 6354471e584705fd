"""Embedding lookups."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["walk"] == "tile" and int(genome["block"]) * int(genome["rows"]) > 16384:
        return "tile too large for registers"
    if genome["walk"] != "tile" and genome["rows"] != 4:
        return "rows belong to the tile walk"
    if genome["walk"] != "persistent" and genome["waves"] != 4:
        return "waves belong to the persistent walk"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["walk"] != "stride" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    if genome["walk"] == "flat" and genome["unroll"] != 4:
        return "the flat walk has no loop"
    return None


FAMILIES = (
    templated(
        "gather_triton",
        Backend.TRITON,
        "embedding_gather",
        "irregular/gather.py",
        shape("walk", "row", "grid", "tile", "flat", "persistent"),
        shape("word", "int16", "int32", "int64"),
        shape("hint", "", ', eviction_policy="evict_first"', ', cache_modifier=".cg"'),
        pick("block", 64, 128, 256, 512, 1024, 2048),
        pick("rows", 4, 8, 16),
        pick("waves", 4, 8, 16),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "gather_cuda",
        Backend.CUDA,
        "embedding_gather",
        "irregular/gather.cu",
        shape("walk", "block", "warp", "rows", "flat", "stride"),
        shape("word", "unsigned short", "unsigned", "uint2", "uint4"),
        shape("hint", "plain", "stream", "readonly"),
        pick("threads", 64, 128, 256, 512),
        pick("unroll", 1, 2, 4, 8),
        pick("waves", 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
