"""Norms of contiguous rows: softmax, log-softmax, L2, RMS with residual, instance and group norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts import (
    CUDA_LOADS,
    CUDA_STORES,
    REDUCE_STYLES,
    TRITON_LOADS,
    TRITON_STORES,
    instances,
    tidy,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

STATISTICS = {
    "softmax": "lse", "log_softmax": "lse", "l2_norm": "squares", "rmsnorm_residual": "squares",
    "instance_norm": "moments", "group_norm": "moments",
}  # fmt: skip
"""`lse`: maximum and sum of exponentials; `squares`: sum of squares; `moments`: mean and variance."""

LONGEST = {
    "softmax": 16384, "log_softmax": 32768, "l2_norm": 16384, "rmsnorm_residual": 8192,
    "instance_norm": 65536, "group_norm": 524288,
}  # fmt: skip
"""Longest row of any workload, rounded up to a power of two: bounds what a block may hold at once."""

TRITON_PLANS = ("whole", "lanes", "scalar", "passes", "split")
TRITON_EXPONENTIALS = {"e": "tl.exp(d)", "two": "tl.exp2(d * 1.4426950408889634)"}


TRITON_POINTERS = {
    "rmsnorm_residual": ("x_ptr, residual_ptr, weight_ptr, y_ptr, hidden_ptr", "x, residual, weight"),
    "group_norm": ("x_ptr, weight_ptr, bias_ptr, y_ptr", "x, weight, bias"),
}
HANDED = {"rmsnorm_residual": "x, residual, weight, y, hidden", "group_norm": "x, weight, bias, y"}


STAGED_BYTES = {"rmsnorm_residual": 8, "group_norm": 12}
"""Bytes that a pipeline stage holds of each element, where that is not one float."""


def triton_genes(problem_id: str) -> tuple[Gene, ...]:
    """Plan, rows at a time, schedule, order and exponential change the code."""
    longest = LONGEST[problem_id]
    return (
        shape("plan", *(TRITON_PLANS if longest <= 65536 else TRITON_PLANS[1:])),
        shape("rows", 1, 2, 4) if longest <= 16384 else shape("rows", 1),
        shape("schedule", "grid", "persistent"),
        shape("order", "forward", "backward"),
        shape("exponential", *(TRITON_EXPONENTIALS if STATISTICS[problem_id] == "lse" else ("e",))),
        shape("load", *TRITON_LOADS),
        shape("store", *TRITON_STORES),
        pick("block", 512, 1024, 2048, 4096, 8192),
        pick("split", 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())),
        pick("per_sm", 1, 2, 4, 8),
        pick("stages", 1, 2, 3),
        pick("warps", 2, 4, 8, 16, *((32,) if longest > 16384 else ())),
    )


def triton_invalid(problem_id: str, genome: Genome) -> str | None:
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


def triton_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    pointers, arguments = TRITON_POINTERS.get(problem_id, ("x_ptr, y_ptr", "x"))
    code = render(
        "rowwise/norms.py",
        **dict(genome) | {"hint": TRITON_LOADS[str(genome["load"])], "store": TRITON_STORES[str(genome["store"])]},
        problem=problem_id,
        statistics=STATISTICS[problem_id],
        expression=TRITON_EXPONENTIALS[str(genome["exponential"])],
        pointers=pointers,
        arguments=arguments,
        handed=HANDED.get(problem_id, "x, y"),
    )
    return tidy(code)


CUDA_PLANS = ("held", "shared", "reread", "warp", "split")
CUDA_EXPONENTIALS = {"precise": "expf(d)", "fast": "__expf(d)", "two": "exp2f(d * 1.44269504f)"}


PARAMETERS = {
    "rmsnorm_residual": (
        "const bf16* __restrict__ x, const bf16* __restrict__ residual, const bf16* __restrict__ weight,"
        " bf16* __restrict__ y, bf16* __restrict__ hidden",
        "x, residual, weight, y, hidden",
        "x, residual, weight",
    ),
    "group_norm": (
        "const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,"
        " float* __restrict__ y",
        "x, weight, bias, y",
        "x, weight, bias",
    ),
}
PLAIN = ("const float* __restrict__ x, float* __restrict__ y", "x, y", "x")


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """Plan, order of statistics, reduction, pack width and schedule change the code."""
    longest, statistics = LONGEST[problem_id], STATISTICS[problem_id]
    plans = [p for p in CUDA_PLANS if (p != "held" or longest <= 65536) and (p != "shared" or longest <= 32768)]
    if longest >= 524288:
        plans.remove("warp")
    return (
        shape("plan", *plans),
        shape("passes", *(("online",) if statistics == "squares" else ("online", "stepwise"))),
        shape("reduce", *REDUCE_STYLES),
        shape("vector", 1, 2, 4, 8),
        shape("schedule", "grid", "persistent"),
        shape("exponential", *(CUDA_EXPONENTIALS if statistics == "lse" else ("precise",))),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("split", 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())),
        pick("per_sm", 1, 2, 4, 8),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
    """More than registers hold, idle threads, or combinations a plan does not have."""
    plan, threads, vector = genome["plan"], int(genome["threads"]), int(genome["vector"])
    longest = LONGEST[problem_id]
    if plan == "held" and not 1 <= longest / (threads * vector) <= 64 / vector:
        return "row does not fit the registers"
    if plan in ("warp", "split") and (genome["passes"] == "stepwise" or genome["schedule"] == "persistent"):
        return "warps and split rows go over a row once, from the grid"
    if plan == "warp" and genome["reduce"] != "shuffle":
        return "warps reduce by shuffles"
    if genome["schedule"] == "persistent" and not 512 <= int(genome["per_sm"]) * threads <= 2048:
        return "too few or too many threads on an SM"
    if longest > 65536 and plan == "reread" and threads < 256:
        return "too few threads for so long a row"
    return None


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    parameters, names, arguments = PARAMETERS.get(problem_id, PLAIN)
    functions = ("measure", "apply") if genome["plan"] == "split" else ("kernel",)
    grouped = problem_id == "group_norm"
    code = render(
        "rowwise/norms.cu",
        **genome,
        problem=problem_id,
        statistics=STATISTICS[problem_id],
        centred=genome["passes"] == "stepwise",
        longest=LONGEST[problem_id],
        expression=CUDA_EXPONENTIALS[str(genome["exponential"])],
        parameters=parameters,
        names=names,
        arguments=arguments,
        shape_parameters=", int per_group, int plane" if grouped else "",
        shape_names=", per_group, plane" if grouped else "",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family("rowwise_triton", Backend.TRITON, tuple(STATISTICS), triton_genes, triton_text, triton_invalid),
    Family("rowwise_cuda", Backend.CUDA, tuple(STATISTICS), cuda_genes, cuda_text, cuda_invalid),
)
