"""CUDA kernels that normalise contiguous rows: softmax, log-softmax, L2, RMS with residual, instance, group norm."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.norms.statistics import LONGEST, STATISTICS
from kbench.generation.proposers.genome.families.rowwise.parts.cuda import (
    LOADS,
    REDUCE_STYLES,
    STORES,
    instances,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

PLANS = ("held", "shared", "reread", "warp", "split")
EXPONENTIALS = {"precise": "expf(d)", "fast": "__expf(d)", "two": "exp2f(d * 1.44269504f)"}


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


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Plan, order of statistics, reduction, pack width and schedule change the code."""
    longest, statistics = LONGEST[problem_id], STATISTICS[problem_id]
    plans = [p for p in PLANS if (p != "held" or longest <= 65536) and (p != "shared" or longest <= 32768)]
    if longest >= 524288:
        plans.remove("warp")
    return (
        shape("plan", *plans),
        shape("passes", *(("online",) if statistics == "squares" else ("online", "stepwise"))),
        shape("reduce", *REDUCE_STYLES),
        shape("vector", 1, 2, 4, 8),
        shape("schedule", "grid", "persistent"),
        shape("exponential", *(EXPONENTIALS if statistics == "lse" else ("precise",))),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("split", 2, 4, 8, 16, *((32, 64) if longest > 65536 else ())),
        pick("per_sm", 1, 2, 4, 8),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
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


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    parameters, names, arguments = PARAMETERS.get(problem_id, PLAIN)
    functions = ("measure", "apply") if genome["plan"] == "split" else ("kernel",)
    grouped = problem_id == "group_norm"
    code = render(
        "rowwise/norms/templates/cuda.py",
        **genome,
        problem=problem_id,
        statistics=STATISTICS[problem_id],
        centred=genome["passes"] == "stepwise",
        longest=LONGEST[problem_id],
        expression=EXPONENTIALS[str(genome["exponential"])],
        parameters=parameters,
        names=names,
        arguments=arguments,
        shape_parameters=", int per_group, int plane" if grouped else "",
        shape_names=", per_group, plane" if grouped else "",
        exported=instances(int(genome["vector"]), *functions),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="rowwise_cuda",
        backend=Backend.CUDA,
        problems=tuple(STATISTICS),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
