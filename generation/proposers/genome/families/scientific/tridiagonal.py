"""Many tridiagonal systems: elimination, parallel reduction, and both in turn."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["steps"] == 0 and (genome["order"] != "row" or genome["block"] != 256 or genome["warps"] != 4):
        return "no reduction to tune"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] != "reduce" and genome["steps"] != 8:
        return "steps belong to the reduction"
    if genome["method"] == "reduce" and genome["unroll"] != 1:
        return "unrolling belongs to the eliminations"
    if genome["method"] == "reduce" and int(genome["threads"]) > 256:
        return "more threads than numbers"
    return None


FAMILIES = (
    templated(
        "tridiagonal_triton",
        Backend.TRITON,
        "tridiagonal_solve",
        "scientific/tridiagonal.py",
        shape("steps", 0, 1, 2, 3, 4, 5, 6, 8),
        shape("order", "row", "column"),
        shape("ahead", False, True),
        pick("block", 128, 256, 512, 1024),
        pick("lanes", 32, 64, 128, 256),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "tridiagonal_cuda",
        Backend.CUDA,
        "tridiagonal_solve",
        "scientific/tridiagonal.cu",
        shape("method", "thread", "staged", "reduce", "reduce"),
        shape("steps", 2, 3, 4, 5, 6, 8),
        pick("threads", 32, 64, 128, 256, 512),
        pick("unroll", 1, 2, 4, 8),
        invalid=_cuda_limits,
    ),
)
