"""CUDA kernels for losses: a sum over everything, or one value per row, joined into one number."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts.cuda import (
    LOADS,
    REDUCE_STYLES,
    instances,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

FLAT = ("huber_loss", "kl_div_loss")
BY_ROW = ("cross_entropy_loss", "triplet_margin_loss")
FORMS = {
    "huber_loss": {
        "branch": "const float d = fabsf(a - b);\n    return d < 1.0f ? 0.5f * d * d : d - 0.5f;",
        "clamp": "const float d = fabsf(a - b), q = fminf(d, 1.0f);\n    return q * (d - 0.5f * q);",
    },
    "kl_div_loss": {
        "precise": "return b * logf(b / a);",
        "logs": "return b * (logf(b) - logf(a));",
        "fast": "return b * __logf(__fdividef(b, a));",
    },
}


NAMES = {
    "cross_entropy_loss": (
        "const float* __restrict__ logits, const long long* __restrict__ targets",
        "logits, targets",
    ),
    "triplet_margin_loss": (
        "const float* __restrict__ anchor, const float* __restrict__ positive, const float* __restrict__ negative",
        "anchor, positive, negative",
    ),
}


def genes(problem_id: str) -> tuple[Gene, ...]:
    """How elements are walked, and how parts are joined."""
    if problem_id in FLAT:
        ways = (
            shape("plan", "strided", "blocks", "chunk"),
            shape("form", *FORMS[problem_id]),
            shape("schedule", "none"),
        )
    else:
        forms = ("expf", "__expf") if problem_id == "cross_entropy_loss" else ("expf",)
        ways = (shape("plan", "block", "warp"), shape("form", *forms), shape("schedule", "grid", "persistent"))
    return (
        *ways,
        shape("finish", "atomic", "second", "last"),
        shape("reduce", *REDUCE_STYLES),
        shape("vector", 1, 2, 4, 8),
        shape("load", *LOADS),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Too many parts, or too few threads to hide memory."""
    threads, scheduled = int(genome["threads"]), genome["schedule"] != "grid" and genome["plan"] != "blocks"
    if genome["plan"] == "blocks" and threads * int(genome["unroll"]) * int(genome["vector"]) < 2048:
        return "too many parts"
    if scheduled and not 512 <= int(genome["per_sm"]) * threads <= 2048:
        return "too few or too many threads on an SM"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    flat = problem_id in FLAT
    parameters, names = NAMES.get(problem_id, ("", "predictions, targets"))
    code = render(
        "rowwise/loss/templates/cuda.py",
        **genome,
        problem=problem_id,
        flat=flat,
        term=FORMS[problem_id][str(genome["form"])] if flat else "",
        expo=str(genome["form"]),
        parameters=parameters,
        names=names,
        lead=names.split(",")[0],
        store="plain",
        exported=instances(int(genome["vector"]), "kernel"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family(
        name="loss_cuda",
        backend=Backend.CUDA,
        problems=(*BY_ROW, *FLAT),
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
