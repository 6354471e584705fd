"""Many small positive definite systems: a tile or a lane per row, or a thread per system."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] != "gradients" and genome["steps"] != 24:
        return "steps belong to the iteration"
    if int(genome["systems"]) * 1024 > 64 * 32 * int(genome["warps"]):
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] in ("thread", "shared") and genome["load"] != "column":
        return "loads belong to the row lanes"
    if genome["method"] != "gradients" and genome["steps"] != 24:
        return "steps belong to the iteration"
    if genome["method"] != "shared" and genome["pad"] != 1:
        return "padding belongs to shared memory"
    if genome["method"] == "shared" and int(genome["threads"]) > 256:
        return "shared memory"
    return None


FAMILIES = (
    templated(
        "small_solve_triton",
        Backend.TRITON,
        "batched_solve",
        "scientific/small_solve.py",
        shape("method", "jordan", "gauss", "cholesky", "gradients"),
        shape("walk", "once", "stride"),
        pick("steps", 20, 24, 28, 32),
        pick("systems", 1, 2, 4, 8),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "small_solve_cuda",
        Backend.CUDA,
        "batched_solve",
        "scientific/small_solve.cu",
        shape("method", "jordan", "gauss", "gradients", "shared", "thread"),
        shape("load", "column", "vector"),
        shape("pad", 0, 1),
        pick("steps", 20, 24, 28),
        pick("threads", 32, 64, 128, 256, 512),
        invalid=_cuda_limits,
    ),
)
