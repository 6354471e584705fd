"""Rows added into indexed places: atomics, or lists of items per row."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "lists" and (genome["items"] != 8 or genome["zero"] != "torch"):
        return "lists need neither zeros nor items"
    if genome["method"] != "lists" and genome["count_block"] != 256:
        return "count_block belongs to lists"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] in ("lists", "warp_lists") and genome["zero"] != "torch":
        return "lists need no zeros"
    return None


FAMILIES = (
    templated(
        "scatter_triton",
        Backend.TRITON,
        "scatter_add",
        "irregular/scatter.py",
        shape("method", "row", "tile", "flat", "persistent", "lists"),
        shape("zero", "torch", "kernel"),
        pick("block", 32, 64, 128),
        pick("items", 4, 8, 16, 32),
        pick("count_block", 128, 256, 512, 1024),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "scatter_cuda",
        Backend.CUDA,
        "scatter_add",
        "irregular/scatter.cu",
        shape("method", "flat", "stride", "warp", "block", "lists", "warp_lists"),
        shape("vector", False, True),
        shape("zero", "torch", "kernel"),
        pick("threads", 32, 64, 128, 256, 512),
        pick("unroll", 1, 2, 4),
        invalid=_cuda_limits,
    ),
)
