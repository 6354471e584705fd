"""Products with packed 4-bit weights: tensor cores or plain lanes, and where nibbles become numbers."""

from __future__ import annotations

from typing import Any

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["zero"] == "folded" and genome["scaled"] == "weights":
        return "a zero point folded into sums needs the sums unscaled"
    if genome["unpack"] == "first" and (genome["scaled"], genome["zero"]) != ("weights", "weights"):
        return "weights unpacked first are already scaled"
    if int(genome["block_n"]) * 16 // (32 * int(genome["warps"])) < 4:
        return "too few sums per thread"
    if genome["block_n"] == 16 and genome["swapped"]:
        return "a tile of sixteen by sixteen is its own transpose"
    return None


def _triton_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    return {
        "weights": "w_ptr" if genome["unpack"] == "first" else "packed_ptr, scale_ptr",
        "weight_args": "w" if genome["unpack"] == "first" else "packed, scale",
        "span": "k_span, " if genome["split_k"] != 1 else "",
        "evict": ', eviction_policy="evict_first"' if genome["evict"] == "first" else "",
        "shift": "" if genome["zero"] == "folded" else " - 8.0",
        "carry": ", acc" if genome["scaled"] == "weights" else "",
    }


def _mma_limits(genome: Genome) -> str | None:
    warps = int(genome["warps_k"]) * int(genome["warps_n"])
    if not 2 <= warps <= 16:
        return "too few or too many warps"
    columns = int(genome["warps_n"]) * int(genome["tiles"]) * 8
    joined = int(genome["warps_k"]) * 16 * columns * 4 if genome["warps_k"] != 1 else 0
    staged = 16 * (int(genome["warps_k"]) * 128 + 8) * 2 if genome["x_from"] == "shared" else 0
    return "too much static shared memory" if joined + staged + 1024 > 48 * 1024 else None


def _lane_limits(genome: Genome) -> str | None:
    if genome["x_from"] == "global" and genome["rows"] == "floats":
        return "rows read from device memory stay halves"
    return None


def _cuda_values(device: str, genome: Genome, threads: int, columns: int) -> dict[str, Any]:
    load = "__ldcs" if genome["hint"] == "streaming" else "__ldg"
    parts = genome["split_k"] != 1
    staged = "xs[r][lane * 8 + e]"
    return {
        "device": device,
        "threads": threads,
        "columns": columns,
        "load": load,
        "operands": "float16",
        "kind": "float" if parts else "__half",
        "at": ("(size_t)blockIdx.z * M * N + " if parts else "") + "(size_t)m * N + n",
        "finish": lambda value: value if parts else f"__float2half({value})",
        "staged": f"__half2float({staged})" if genome.get("rows") == "halves" else staged,
    }


def _mma_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    warps = int(genome["warps_k"]) * int(genome["warps_n"])
    return _cuda_values("mma", genome, 32 * warps, int(genome["warps_n"]) * int(genome["tiles"]) * 8)


def _lane_values(problem_id: str, genome: Genome) -> dict[str, Any]:
    return _cuda_values(
        "lanes",
        genome,
        32 * int(genome["warps"]),
        int(genome["warps"]) * int(genome["outputs"]),
    )


FAMILIES = (
    templated(
        "int4_triton",
        Backend.TRITON,
        "int4_weight_gemm",
        "dense/int4.py",
        shape("unpack", "halves", "interleave", "first"),
        shape("scaled", "weights", "sums"),
        shape("zero", "weights", "folded"),
        shape("swapped", False, True),
        shape("split_k", 1, 2, 4, 8, 16),
        shape("evict", "none", "first"),
        pick("block_n", 16, 32, 64, 128),
        pick("block_k", 64, 128),
        pick("warps", 2, 4, 8),
        pick("stages", 2, 3, 4, 5),
        invalid=_triton_limits,
        values=_triton_values,
    ),
    templated(
        "int4_cuda_mma",
        Backend.CUDA,
        "int4_weight_gemm",
        "dense/int4.cu",
        shape("decode", "magic", "convert", "table"),
        shape("scaled", "weights", "sums"),
        shape("x_from", "global", "shared"),
        shape("split_k", 1, 2, 4, 8),
        shape("hint", "plain", "streaming"),
        shape("warps_k", 1, 2, 4, 8),
        pick("warps_n", 1, 2, 4),
        pick("tiles", 1, 2, 4),
        invalid=_mma_limits,
        values=_mma_values,
    ),
    templated(
        "int4_cuda_lanes",
        Backend.CUDA,
        "int4_weight_gemm",
        "dense/int4.cu",
        shape("x_from", "global", "shared"),
        shape("rows", "halves", "floats"),
        shape("split_k", 1, 2, 4, 8),
        shape("hint", "plain", "streaming"),
        shape("zero", "weights", "folded"),
        pick("warps", 2, 4, 8),
        pick("outputs", 1, 2, 4),
        invalid=_lane_limits,
        values=_lane_values,
    ),
)
