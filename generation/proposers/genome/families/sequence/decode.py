"""Attention of one new token to a dense, grouped or paged cache."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "scores" and genome["splits"] != 1:
        return "only the one-pass form splits the cache"
    if int(genome["block"]) * 128 > int(genome["warps"]) * 32 * 128:
        return "too many values per thread"
    if genome["compute"] == "vector" and genome.get("sharing") == "group" and int(genome["block"]) > 32:
        return "a group of heads by elementwise products fills the registers"
    return None


_TRITON_GENES = (
    shape("method", "flash", "flash", "scores"),
    shape("compute", "vector", "dot"),
    shape("splits", 1, 2, 4, 8, 16),
    pick("block", 16, 32, 64, 128),
    pick("warps", 1, 2, 4, 8),
    pick("stages", 1, 2, 3, 4),
)


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] != "lanes" and (genome["rescale"] != "always" or genome["vec"] != 8):
        return "only the one-pass form rescales"
    if genome["method"] != "lanes" and genome.get("sharing", "head") != "head":
        return "stored scores serve one head"
    if genome["method"] != "lanes" and genome["splits"] == 1 and int(genome["threads"]) > 256:
        return "8,192 stored scores and 32 partial rows exceed 48 KiB together"
    if int(genome["threads"]) * int(genome["vec"]) > 8192:
        return "the slots' sums exceed static shared memory"
    return None


_CUDA_GENES = (
    shape("method", "lanes", "lanes", "tokens", "warps"),
    shape("rescale", "always", "rarely"),
    shape("splits", 1, 2, 4, 8, 16),
    shape("vec", 4, 8, 16),
    pick("threads", 64, 128, 256, 512),
    pick("unroll", 1, 2, 4),
)


FAMILIES = (
    templated(
        "decode_triton",
        Backend.TRITON,
        ("attention_decode", "paged_attention_decode"),
        "sequence/decode.py",
        *_TRITON_GENES,
        invalid=_triton_limits,
    ),
    templated(
        "grouped_decode_triton",
        Backend.TRITON,
        "gqa_decode",
        "sequence/decode.py",
        shape("sharing", "group", "head"),
        *_TRITON_GENES,
        invalid=_triton_limits,
    ),
    templated(
        "decode_cuda",
        Backend.CUDA,
        ("attention_decode", "paged_attention_decode"),
        "sequence/decode.cu",
        *_CUDA_GENES,
        invalid=_cuda_limits,
    ),
    templated(
        "grouped_decode_cuda",
        Backend.CUDA,
        "gqa_decode",
        "sequence/decode.cu",
        shape("sharing", "group", "head"),
        *_CUDA_GENES,
        invalid=_cuda_limits,
    ),
)
