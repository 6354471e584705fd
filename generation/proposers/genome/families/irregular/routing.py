"""Choice of experts: top-k of the router's softmax."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] in ("sort", "rank") and (genome["unroll"] or genome["softmax"] == "first"):
        return "only the maxima unroll or normalise first"
    if genome["method"] == "sort" and int(genome["rows"]) * 128 > int(genome["warps"]) * 32 * 16:
        return "more than 16 keys per thread compile for minutes"
    if int(genome["rows"]) * 128 > int(genome["warps"]) * 32 * 64:
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] != "lanes" and (genome["lanes"] != 32 or genome["softmax"] == "first"):
        return "lanes and softmax belong to the shared token"
    if genome["method"] == "staged" and int(genome["threads"]) > 512:
        return "shared memory"
    return None


FAMILIES = (
    templated(
        "routing_triton",
        Backend.TRITON,
        "moe_topk_routing",
        "irregular/routing.py",
        shape("method", "value", "packed", "sort", "rank"),
        shape("softmax", "chosen", "first"),
        shape("persistent", False, True),
        shape("unroll", False, True),
        pick("rows", 1, 2, 4, 8, 16, 32),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "routing_cuda",
        Backend.CUDA,
        "moe_topk_routing",
        "irregular/routing.cu",
        shape("method", "lanes", "lanes", "thread", "staged", "rank"),
        shape("lanes", 4, 8, 16, 32),
        shape("softmax", "chosen", "first"),
        pick("threads", 32, 64, 128, 256, 512),
        invalid=_cuda_limits,
    ),
)
