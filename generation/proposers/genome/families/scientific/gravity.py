"""Forces between all bodies."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if int(genome["rows"]) * int(genome["block"]) > 32 * 32 * int(genome["warps"]):
        return "too many pairs per thread"
    if genome["gather"] == "atomic" and genome["splits"] == 1:
        return "nothing to gather"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["gather"] == "atomic" and genome["splits"] == 1:
        return "nothing to gather"
    return None


FAMILIES = (
    templated(
        "gravity_triton",
        Backend.TRITON,
        "nbody_forces",
        "scientific/gravity.py",
        shape("layout", "plain", "packed"),
        shape("sums", "lanes", "each"),
        shape("root", "rsqrt", "divide"),
        shape("gather", "parts", "atomic"),
        shape("splits", 1, 4, 16),
        pick("rows", 16, 32, 64, 128),
        pick("block", 16, 32, 64, 128),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "gravity_cuda",
        Backend.CUDA,
        "nbody_forces",
        "scientific/gravity.cu",
        shape("stage", "shared", "shuffle", "direct"),
        shape("root", "rsqrt", "divide"),
        shape("gather", "parts", "atomic"),
        shape("splits", 1, 4, 16, 32),
        shape("each", 1, 2, 4),
        pick("threads", 32, 64, 128, 256),
        pick("unroll", 1, 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
