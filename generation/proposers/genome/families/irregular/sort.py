"""Sorted rows: in registers or shared memory, by rank, radix, merging, or passes over memory."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    method, block, part = genome["method"], int(genome["block"]), int(genome["part"])
    if method == "registers" and (block != 256 or part != 64):
        return "the register sort has no blocks"
    lanes = 32 * int(genome["warps"])
    if method == "registers" and int(genome["rows"]) * 1024 > 16 * lanes:
        return "more than 16 keys per thread compile for minutes"
    if method == "merge" and int(genome["rows"]) * block > 16 * lanes:
        return "more than 16 keys per thread compile for minutes"
    if method in ("rank", "passes", "mixed") and genome["rows"] != 1:
        return "rows per program belong to the register sort"
    if method == "rank" and (block > 256 or block * part > 16384):
        return "compare matrix too large"
    if method in ("merge", "passes") and part != 64:
        return "parts belong to the rank and mixed sorts"
    if method == "passes" and block < 256:
        return "passes over memory want large blocks"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    method = genome["method"]
    if method in ("shuffle", "radix", "merge") and genome["threads"] != 256:
        return "one thread per element"
    if method == "radix" and genome["key"] == "integer":
        return "the radix sort has its own key"
    if method != "rank" and genome["unroll"] != 4:
        return "only the rank loop unrolls"
    return None


FAMILIES = (
    templated(
        "sort_triton",
        Backend.TRITON,
        "sort",
        "irregular/sort.py",
        shape("method", "registers", "registers", "rank", "merge", "passes", "mixed"),
        shape("key", "float", "integer"),
        pick("rows", 1, 2, 4, 8),
        pick("block", 64, 128, 256, 512, 1024),
        pick("part", 16, 64, 128, 256),
        pick("warps", 1, 2, 4, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "sort_cuda",
        Backend.CUDA,
        "sort",
        "irregular/sort.cu",
        shape("method", "bitonic", "shuffle", "rank", "radix", "merge", "odd_even"),
        shape("key", "float", "integer"),
        pick("threads", 32, 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
