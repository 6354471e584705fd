"""The gated delta network: chunk states, outputs, and w and u."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_state_limits(genome: Genome) -> str | None:
    if genome["precision"] == "ieee" and (genome["warps"] != 8 or genome["cols"] == 64):
        return "exact products unroll into so many instructions that few threads compile for minutes"
    if genome["method"] == "launches" and genome["stages"] != 1:
        return "stages belong to the fused loop"
    return None


def _triton_limits(genome: Genome) -> str | None:
    if genome["precision"] == "ieee" and (genome["warps"] != 8 or genome["rows"] == 64):
        return "exact products unroll into so many instructions that few threads compile for minutes"
    return None


def _triton_output_limits(genome: Genome) -> str | None:
    if genome["walk"] == "grid" and genome["waves"] != 4:
        return "waves belong to the persistent walk"
    return _triton_limits(genome)


def _cuda_limits(genome: Genome) -> str | None:
    threads, tx, cols = int(genome["threads"]), int(genome["tx"]), int(genome["cols"])
    if tx > cols or threads // tx > 64:
        return "idle threads"
    if (64 * tx // threads) * max(1, cols // tx) > 64:
        return "too many sums per thread"
    return None


_CUDA_GENES = (
    shape("vector", True, False),
    shape("pad", 0, 1, 4),
    pick("cols", 8, 16, 32, 64),
    pick("tx", 4, 8, 16, 32),
    pick("threads", 64, 128, 256, 512),
    pick("unroll", 1, 4, 8, 16),
)


def _cuda_state_limits(genome: Genome) -> str | None:
    if genome["cols"] == 64:
        return "three tiles of 64 × 64 exceed 48 KiB of shared memory"
    return _cuda_limits(genome)


def _cuda_output_limits(genome: Genome) -> str | None:
    if int(genome["threads"]) < 128:
        return "too many sums per thread"
    return _cuda_limits(genome)


FAMILIES = (
    templated(
        "delta_states_triton",
        Backend.TRITON,
        "gdn_chunk_fwd_h",
        "sequence/delta.py#states",
        shape("method", "fused", "fused", "launches"),
        shape("keys", "direct", "turned"),
        shape("scaling", "values", "keys"),
        shape("precision", "ieee", "tf32x3"),
        pick("cols", 16, 32, 64),
        pick("rows", 16, 32, 64),
        pick("warps", 2, 4, 8),
        pick("stages", 1, 2),
        invalid=_triton_state_limits,
    ),
    templated(
        "delta_output_triton",
        Backend.TRITON,
        "gdn_chunk_fwd_o",
        "sequence/delta.py#output",
        shape("inner", "whole", "steps"),
        shape("scaling", "before", "after"),
        shape("walk", "grid", "persistent"),
        shape("precision", "ieee", "tf32x3"),
        pick("rows", 16, 32, 64),
        pick("cols", 16, 32, 64),
        pick("warps", 2, 4, 8),
        pick("waves", 2, 4, 8),
        invalid=_triton_output_limits,
    ),
    templated(
        "delta_w_u_triton",
        Backend.TRITON,
        "gdn_recompute_w_u",
        "sequence/delta.py#w_u",
        shape("inner", "whole", "steps"),
        shape("scaling", "rows", "matrix"),
        shape("fusion", "together", "apart"),
        shape("precision", "ieee", "tf32x3"),
        pick("rows", 16, 32, 64),
        pick("cols", 16, 32, 64),
        pick("warps", 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "delta_output_cuda",
        Backend.CUDA,
        "gdn_chunk_fwd_o",
        "sequence/delta.cu#output",
        shape("keys", "turned", "straight"),
        shape("order", "state", "scores"),
        *_CUDA_GENES,
        invalid=_cuda_output_limits,
    ),
    templated(
        "delta_w_u_cuda",
        Backend.CUDA,
        "gdn_recompute_w_u",
        "sequence/delta.cu#w_u",
        shape("scaling", "rows", "matrix"),
        shape("fusion", "together", "apart"),
        *_CUDA_GENES,
        invalid=_cuda_limits,
    ),
    templated(
        "delta_states_cuda",
        Backend.CUDA,
        "gdn_chunk_fwd_h",
        "sequence/delta.cu#states",
        shape("scaling", "values", "keys"),
        *_CUDA_GENES,
        invalid=_cuda_state_limits,
    ),
)
