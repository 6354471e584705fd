"""Attention over a whole prompt: one pass, two passes, or stored scores."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    rows, block, warps, stages = (int(genome[name]) for name in ("rows", "block", "warps", "stages"))
    if rows < 16 * warps // 2 or rows * block > 16384 or rows * 128 > warps * 32 * 64:
        return "tile against warps"
    # Queries, and keys and values in every stage, in bfloat16 at dim 128.
    if 2 * 128 * (rows + 2 * block * stages) > 160_000:
        return "shared memory"
    if genome["method"] == "stored" and genome["order"] != "blocks":
        return "order belongs to the fused forms"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    warps, block = int(genome["warps"]), int(genome["block"])
    shared = warps * 16 * (block + 8) * 6
    shared += warps * 64 * 136 if genome["method"] == "flash" else 0
    shared += 2 * block * 136 if genome["stage"] else 0
    return "shared memory" if shared > 96_000 else None


FAMILIES = (
    templated(
        "prefill_triton",
        Backend.TRITON,
        "attention_prefill",
        "sequence/prefill.py",
        shape("method", "flash", "flash", "two_pass", "stored"),
        shape("order", "blocks", "heads", "persistent"),
        shape("keys", "direct", "turned"),
        shape("base", "two", "e"),
        pick("rows", 16, 32, 64, 128),
        pick("block", 16, 32, 64, 128),
        pick("warps", 2, 4, 8),
        pick("stages", 1, 2, 3),
        invalid=_triton_limits,
    ),
    templated(
        "prefill_cuda",
        Backend.CUDA,
        "attention_prefill",
        "sequence/prefill.cu",
        shape("method", "two_pass", "flash", "stored"),
        shape("stage", True, False),
        shape("order", "rows", "heads"),
        shape("base", "two", "e"),
        pick("block", 16, 32, 64),
        pick("warps", 1, 2, 4, 8),
        invalid=_cuda_limits,
    ),
)
