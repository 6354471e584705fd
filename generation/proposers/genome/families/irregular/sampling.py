"""Draw of a token: softmax and an arg-max of probability over noise."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["passes"] != "two" and genome["score"] == "quotient":
        return "the quotient needs the maximum first"
    if int(genome["block"]) > 64 * 32 * int(genome["warps"]):
        return "too many values per thread"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["passes"] != "two" and genome["score"] == "quotient":
        return "the quotient needs the maximum first"
    if genome["vector"] and genome["unroll"] != 1:
        return "the vector loop is not unrolled"
    return None


FAMILIES = (
    templated(
        "sampling_triton",
        Backend.TRITON,
        "sampling_softmax",
        "irregular/sampling.py",
        shape("passes", "two", "lanes", "online"),
        shape("score", "log", "quotient"),
        shape("split", 1, 2, 4, 8),
        pick("block", 256, 512, 1024, 2048, 4096, 8192),
        pick("warps", 1, 2, 4, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "sampling_cuda",
        Backend.CUDA,
        "sampling_softmax",
        "irregular/sampling.cu",
        shape("passes", "two", "online", "rescale"),
        shape("score", "log", "quotient"),
        shape("split", 1, 2, 4, 8),
        shape("vector", False, True),
        shape("reduce", "shuffle", "tree"),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 1, 4),
        invalid=_cuda_limits,
    ),
)
