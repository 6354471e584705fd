"""The nearest centroid of every point."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    rows, block, warps = (int(genome[name]) for name in ("rows", "block", "warps"))
    if rows * block > 64 * 32 * warps or rows * block > 8192:
        return "too many distances per thread"
    if genome["form"] != "dot" and genome["precision"] != "tf32x3":
        return "precision belongs to the dot form"
    if genome["form"] == "dot" and genome["precision"] == "ieee" and rows * block > 4 * 32 * warps:
        return "exact products unroll into so many instructions that few threads compile for minutes"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] != "thread" and genome["part"] != 32:
        return "parts belong to the thread form"
    if genome["method"] != "tile" and genome["rx"] != 4:
        return "rx belongs to the tile form"
    if genome["method"] == "tile" and int(genome["threads"]) * int(genome["rx"]) > 4096:
        return "shared memory"
    return None


FAMILIES = (
    templated(
        "cluster_triton",
        Backend.TRITON,
        "kmeans_assign",
        "scientific/cluster.py",
        shape("method", "fused", "persistent", "stored"),
        shape("form", "dot", "dot", "difference", "expanded"),
        shape("precision", "tf32x3", "ieee"),
        pick("rows", 16, 32, 64, 128),
        pick("block", 16, 32, 64, 128),
        pick("warps", 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "cluster_cuda",
        Backend.CUDA,
        "kmeans_assign",
        "scientific/cluster.cu",
        shape("method", "thread", "tile", "tile", "warp"),
        shape("form", "difference", "expanded"),
        shape("rx", 2, 4, 8),
        pick("part", 16, 32, 64),
        pick("threads", 64, 128, 256, 512),
        invalid=_cuda_limits,
    ),
)
