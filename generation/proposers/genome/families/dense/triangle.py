"""The triangle multiplicative update: normalise and project, multiply, project back."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    sums = 5 if genome["fusion"] == "together" else 2
    if int(genome["rows"]) * int(genome["channels"]) * sums > 32 * int(genome["warps"]) * 96:
        return "too many sums per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["storage"] == "float32" and genome["product"] == "tensor":
        return "tensor cores take bfloat16"
    return None


FAMILIES = (
    templated(
        "triangle_triton",
        Backend.TRITON,
        "trimul",
        "dense/triangle.py",
        shape("stats", "inside", "separate"),
        shape("fusion", "together", "apart"),
        shape("storage", "float32", "bfloat16"),
        shape("order", "rows", "columns"),
        shape("turned", True, False),
        pick("rows", 32, 64, 128),
        pick("channels", 16, 32, 64),
        pick("side", 32, 64, 128),
        pick("back", 16, 32, 64),
        pick("stages", 2, 3),
        pick("warps", 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "triangle_cuda",
        Backend.CUDA,
        "trimul",
        "dense/triangle.cu",
        shape("storage", "float32", "bfloat16"),
        shape("product", "scalar", "tensor"),
        shape("lanes", "channels", "pairs"),
        shape("across", 1, 2, 4),
        shape("each", 1, 2, 4, 8),
        pick("depth", 8, 16, 32),
        pick("unroll", 1, 4, 8),
        invalid=_cuda_limits,
    ),
)
