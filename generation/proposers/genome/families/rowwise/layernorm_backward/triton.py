"""Triton kernels for the backward pass of layer norm: a row pass for x, a column sum for weight and bias."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES, tidy
from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def invalid(genome: Genome) -> str | None:
    """More than registers hold, or too few programs to fill the GPU."""
    plan, warps = genome["plan"], int(genome["warps"])
    held = int(genome["block"]) if plan == "loops" else 4096
    if not 1 <= held / (32 * warps) <= 32:
        return "elements per lane out of bounds"
    if plan in ("partials", "atomic") and not 8 <= int(genome["per_sm"]) * warps <= 64:
        return "too few or too many warps on an SM"
    if not 128 <= int(genome["column_rows"]) * int(genome["column_cols"]) <= 4096:
        return "column tiles out of bounds"
    if plan != "recompute" and plan != "loops" and int(genome["stages"]) > 2:
        return "rows this wide leave no room for more stages"
    return None


FAMILIES = (
    templated(
        "layernorm_backward_triton",
        Backend.TRITON,
        "layernorm_backward",
        "rowwise/layernorm_backward/templates/triton.py",
        shape("plan", "partials", "atomic", "recompute", "loops"),
        shape("statistics", "centred", "sums"),
        shape("walk", "strided", "chunk"),
        shape("hint", *LOADS.values()),
        shape("write", *STORES.values()),
        pick("block", 512, 1024, 2048),
        pick("stages", 1, 2, 3),
        pick("warps", 4, 8, 16),
        pick("per_sm", 1, 2, 4, 8),
        pick("split", 8, 16, 32, 64),
        pick("column_rows", 4, 8, 16, 32),
        pick("column_cols", 32, 64, 128),
        invalid=invalid,
        polish=tidy,
    ),
)
