"""Counts of bin numbers: private or shared copies, warp votes, global atomics."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "global" and genome["gather"] != "each":
        return "gather belongs to the block method"
    if genome["method"] == "block" and genome["gather"] == "partial" and genome["copies"] != 1:
        return "partial sums have no copies"
    if genome["method"] == "global" and (genome["copies"] == 1 or int(genome["block"]) > 4096):
        return "one copy is too contended"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["place"] == "global" and genome["gather"] != "atomic":
        return "global copies are always added by atomics"
    if genome["place"] == "global" and genome["copies"] == 1:
        return "eight global copies are too contended"
    if genome["vector"] and genome["unroll"] != 1:
        return "the vector loop is not unrolled"
    return None


FAMILIES = (
    templated(
        "histogram_triton",
        Backend.TRITON,
        "histogram",
        "irregular/histogram.py",
        shape("method", "block", "block", "global"),
        shape("loop", "stride", "chunk"),
        shape("gather", "atomic", "partial", "each"),
        pick("copies", 1, 8, 32, 64),
        pick("waves", 1, 2, 4, 8),
        pick("block", 1024, 2048, 4096, 8192),
        pick("warps", 4, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "histogram_cuda",
        Backend.CUDA,
        "histogram",
        "irregular/histogram.cu",
        shape("method", "single", "votes"),
        shape("place", "shared", "shared", "global"),
        shape("gather", "atomic", "partial"),
        shape("vector", False, True),
        shape("walk", "stride", "chunk"),
        pick("copies", 1, 2, 4),
        pick("threads", 128, 256, 512, 1024),
        pick("waves", 1, 2, 4, 8),
        pick("unroll", 1, 4, 8),
        invalid=_cuda_limits,
    ),
)
