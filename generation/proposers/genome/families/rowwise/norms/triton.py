"""Triton kernels that normalise contiguous rows: softmax, log-softmax, L2, RMS with residual, instance, group norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.norms.statistics import LONGEST, STATISTICS
from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES, tidy
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

PLANS = ("whole", "lanes", "scalar", "passes", "split")
EXPONENTIALS = {"e": "tl.exp(d)", "two": "tl.exp2(d * 1.4426950408889634)"}


POINTERS = {
    "rmsnorm_residual": ("x_ptr, residual_ptr, weight_ptr, y_ptr, hidden_ptr", "x, residual, weight"),
    "group_norm": ("x_ptr, weight_ptr, bias_ptr, y_ptr", "x, weight, bias"),
}
HANDED = {"rmsnorm_residual": "x, residual, weight, y, hidden", "group_norm": "x, weight, bias, y"}


STAGED_BYTES = {"rmsnorm_residual": 8, "group_norm": 12}
"""Bytes that a pipeline stage holds of each element, where that is not one float."""


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Plan, rows at a time, schedule, order and exponential change the code."""
    longest = LONGEST[problem_id]
    return (
        shape("plan", *(PLANS if longest <= 65536 else PLANS[1:])),
        shape("rows", 1, 2, 4) if longest <= 16384 else shape("rows", 1),
        shape("schedule", "grid", "persistent"),
        shape("order", "forward", "backward"),
        shape("exponential", *(EXPONENTIALS if STATISTICS[problem_id] == "lse" else ("e",))),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", 512, 1024, 2048, 4096, 8192),
        pick("split", 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())),
        pick("per_sm", 1, 2, 4, 8),
        pick("stages", 1, 2, 3),
        pick("warps", 2, 4, 8, 16, *((32,) if longest > 16384 else ())),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or too few threads to hide memory."""
    plan, rows, warps = genome["plan"], int(genome["rows"]), int(genome["warps"])
    held = rows * (LONGEST[problem_id] if plan == "whole" else int(genome["block"]))
    if held > 64 * 32 * warps:
        return "more than 64 elements per lane"
    if plan == "lanes" and STATISTICS[problem_id] == "lse" and held > 32 * 32 * warps:
        return "more than 32 running maxima and sums per lane"
    if held < 32 * warps:
        return "fewer elements than lanes"
    if plan != "whole" and held * STAGED_BYTES.get(problem_id, 4) * int(genome["stages"]) > 120 * 1024:
        return "stages need more than 120 KiB of shared memory"
    if genome["schedule"] == "persistent" and not 8 <= int(genome["per_sm"]) * warps <= 64:
        return "too few or too many warps on an SM"
    if plan == "split" and (rows > 1 or genome["schedule"] == "persistent" or genome["order"] == "backward"):
        return "split rows are neither tiled nor scheduled nor turned"
    if plan in ("whole", "passes") and genome["order"] == "backward":
        return "only a second pass can be turned"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    pointers, arguments = POINTERS.get(problem_id, ("x_ptr, y_ptr", "x"))
    code = render(
        "rowwise/norms/templates/triton.py",
        **dict(genome) | {"hint": LOADS[str(genome["load"])], "store": STORES[str(genome["store"])]},
        problem=problem_id,
        statistics=STATISTICS[problem_id],
        expression=EXPONENTIALS[str(genome["exponential"])],
        pointers=pointers,
        arguments=arguments,
        handed=HANDED.get(problem_id, "x, y"),
    )
    return tidy(code)


FAMILIES = (
    Family(
        name="rowwise_triton",
        backend=Backend.TRITON,
        problems=tuple(STATISTICS),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
