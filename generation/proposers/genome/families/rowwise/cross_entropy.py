"""Cross entropy with its gradient."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "split" and (genome["sums"] != "lanes" or genome["walk"] != "rows" or genome["stages"] != 2):
        return "the split form has one way to sum"
    if genome["method"] != "split" and genome["walk"] == "rows" and genome["split"] != 4:
        return "nothing to split"
    if genome["method"] == "fused" and genome["wide"] != 1024:
        return "wide belongs to the separate gradient"
    if int(genome["block"]) > 64 * 32 * int(genome["warps"]):
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] == "split" and genome["walk"] == "persistent":
        return "the split form has its own grid"
    if genome["method"] == "fused" and genome["walk"] == "rows" and genome["split"] != 4:
        return "nothing to split"
    return None


FAMILIES = (
    templated(
        "cross_entropy_triton",
        Backend.TRITON,
        "cross_entropy_fwd_bwd",
        "rowwise/cross_entropy.py",
        shape("method", "fused", "fused", "separate", "split"),
        shape("sums", "lanes", "online", "three_pass"),
        shape("walk", "rows", "persistent"),
        pick("block", 512, 1024, 2048, 4096, 8192, 16384),
        pick("wide", 512, 1024, 2048, 4096),
        pick("split", 2, 4, 8),
        pick("warps", 2, 4, 8, 16),
        pick("stages", 2, 3),
        invalid=_triton_limits,
    ),
    templated(
        "cross_entropy_cuda",
        Backend.CUDA,
        "cross_entropy_fwd_bwd",
        "rowwise/cross_entropy.cu",
        shape("method", "fused", "separate", "split"),
        shape("sums", "online", "packs", "two_pass"),
        shape("walk", "rows", "persistent"),
        shape("vec", 1, 2, 4, 8),
        pick("threads", 128, 256, 512, 1024),
        pick("split", 2, 4, 8),
        pick("unroll", 1, 2, 4),
        invalid=_cuda_limits,
    ),
)
