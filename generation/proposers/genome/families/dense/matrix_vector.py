"""A matrix times a vector: who sums a row, and how its parts are joined."""

from __future__ import annotations

from typing import Any

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["parts"] == 1 and (genome["join"], genome["spread"]) != ("kernel", "block"):
        return "one part needs no joining"
    held = int(genome["rows"]) * int(genome["block"]) // (32 * int(genome["warps"]))
    if held > 64 or held < 1:
        return "too many or too few elements per thread"
    return None


def _triton_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    evict = ', eviction_policy="evict_first"' if genome["evict"] == "first" else ""
    last = genome["parts"] != 1 and genome["join"] == "last"
    remains = "k_last < k_to"
    if genome["parts"] != 1:
        remains = "(k_last < k_to) & (k_last >= k_from)"
        remains += " & ((k_last - k_from) % step == 0)" if genome["spread"] == "strided" else ""
    extra = "part_ptr, count_ptr, " if last else ""
    return {
        "remains": remains,
        "extra": extra,
        "evict": evict,
        "last": last,
        "late": genome["sum"] == "late",
    }


def _cuda_limits(genome: Genome) -> str | None:
    if genome["parts"] == 1 and (genome["join"], genome["spread"]) != ("kernel", "block"):
        return "one part needs no joining"
    if genome["x_from"] == "shared" and genome["spread"] != "block":
        return "a staged part of x is contiguous"
    if genome["parts"] == 1 and genome["owner"] == "warp" and int(genome["rows"]) > 1:
        return "too few threads for a few hundred long rows"
    return None


def _cuda_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    team = 32 if genome["owner"] == "warp" else int(genome["threads"])
    return {
        "team": team,
        "per_block": int(genome["threads"]) // team * int(genome["rows"]),
        "chunk": 4096,
        "last": genome["parts"] != 1 and genome["join"] == "last",
        "load": "__ldcs" if genome["hint"] == "streaming" else "__ldg",
    }


FAMILIES = (
    templated(
        "matrix_vector_triton",
        Backend.TRITON,
        "matmul_vector",
        "dense/matrix_vector.py",
        shape("parts", 1, 2, 4, 8, 16, 32),
        shape("join", "kernel", "last"),
        shape("spread", "block", "strided"),
        shape("sum", "late", "early"),
        shape("tail", "masked", "peeled"),
        shape("evict", "none", "first"),
        pick("rows", 1, 2, 4, 8),
        pick("block", 256, 512, 1024, 2048, 4096),
        pick("warps", 2, 4, 8),
        pick("stages", 2, 4),
        invalid=_triton_limits,
        values=_triton_values,
    ),
    templated(
        "matrix_vector_cuda",
        Backend.CUDA,
        "matmul_vector",
        "dense/matrix_vector.cu",
        shape("owner", "warp", "block"),
        shape("parts", 1, 2, 4, 8, 16, 32),
        shape("join", "kernel", "last"),
        shape("spread", "block", "strided"),
        shape("reduce", "shuffle", "tree"),
        shape("x_from", "cache", "shared"),
        shape("chains", 1, 2, 4),
        shape("hint", "plain", "streaming"),
        pick("vector", 1, 2, 4),
        pick("rows", 1, 2, 4),
        pick("threads", 64, 128, 256, 512),
        invalid=_cuda_limits,
        values=_cuda_values,
    ),
)
