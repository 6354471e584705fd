"""Losses: a sum over everything, or one value per row, joined into one number."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts import (
    CUDA_LOADS,
    REDUCE_STYLES,
    TRITON_LOADS,
    instances,
    tidy,
    without_blank_lines_inside,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

FLAT = ("huber_loss", "kl_div_loss")
BY_ROW = ("cross_entropy_loss", "triplet_margin_loss")
LONGEST = {"cross_entropy_loss": 4096, "triplet_margin_loss": 8192}
FINISHES = ("atomic", "second", "last")
TRITON_ARGUMENTS = {"cross_entropy_loss": "logits, targets", "triplet_margin_loss": "anchor, positive, negative"}

HUBER = {
    "select": "d = tl.abs(a - b)\n    return tl.where(d < 1.0, 0.5 * d * d, d - 0.5)",
    "clamp": "d = tl.abs(a - b)\n    q = tl.minimum(d, 1.0)\n    return q * (d - 0.5 * q)",
}
KL = {
    "ratio": "return b * tl.log(b / a)",
    "logs": "return b * (tl.log(b) - tl.log(a))",
    "base2": "return b * (tl.log2(b) - tl.log2(a)) * 0.6931471805599453",
}


def triton_genes(problem_id: str) -> tuple[Gene, ...]:
    """How elements are walked, and how parts are joined."""
    hints = (shape("load", *TRITON_LOADS), shape("finish", *FINISHES), pick("join", 256, 1024), pick("stages", 1, 2, 3))
    if problem_id in FLAT:
        return (
            shape("walk", "blocks", "strided", "chunk", "scalar"),
            shape("form", *(HUBER if problem_id == "huber_loss" else KL)),
            *hints,
            pick("block", 512, 1024, 2048, 4096, 8192),
            pick("unroll", 1, 2, 4, 8),
            pick("per_sm", 1, 2, 4, 8, 16),
            pick("warps", 2, 4, 8, 16),
        )
    return (
        shape("plan", "whole", "lanes", *(("passes",) if problem_id == "cross_entropy_loss" else ())),
        shape("rows", 1, 2, 4),
        shape("schedule", "grid", "persistent"),
        *hints,
        pick("block", 256, 512, 1024, 2048, 4096),
        pick("per_sm", 2, 4, 8, 16),
        pick("warps", 1, 2, 4, 8, 16),
    )


def triton_invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, more than registers hold, or too few warps to hide memory."""
    lanes = 32 * int(genome["warps"])
    if problem_id in FLAT:
        held = int(genome["block"])
        scheduled = genome["walk"] != "blocks"
        small = genome["walk"] == "blocks" and held * int(genome["unroll"]) < 4096
    else:
        held = int(genome["rows"]) * (LONGEST[problem_id] if genome["plan"] == "whole" else int(genome["block"]))
        scheduled, small = genome["schedule"] == "persistent", False
    if not lanes <= held <= (32 if problem_id in BY_ROW else 64) * lanes:
        return "elements per lane out of bounds"
    if scheduled and not 8 <= int(genome["per_sm"]) * int(genome["warps"]) <= 64:
        return "too few or too many warps on an SM"
    if held * 12 * int(genome["stages"]) > 120 * 1024:
        return "stages need more than 120 KiB of shared memory"
    return "too many parts" if small else None


def triton_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    flat = problem_id in FLAT
    arguments = TRITON_ARGUMENTS.get(problem_id, "predictions, targets")
    block = "triton.next_power_of_2(cols)" if not flat and genome["plan"] == "whole" else genome["block"]
    forms = HUBER if problem_id == "huber_loss" else KL
    code = render(
        "rowwise/loss.py#flat" if flat else "rowwise/loss.py#rows",
        **genome,
        problem=problem_id,
        hint=TRITON_LOADS[str(genome["load"])],
        term=forms[str(genome["form"])] if flat else "",
        pointers="x_ptr, targets_ptr" if problem_id == "cross_entropy_loss" else "x_ptr, positive_ptr, negative_ptr",
        arguments=arguments,
        first=arguments.split(",")[0],
        sizes="n" if flat else "rows, cols",
        constants=f"BLOCK={block}, UNROLL={genome['unroll']}" if flat else f"BLOCK={block}, ROWS={genome['rows']}",
    )
    return tidy(code)


CUDA_FORMS = {
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


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """How elements are walked, and how parts are joined."""
    if problem_id in FLAT:
        ways = (
            shape("plan", "strided", "blocks", "chunk"),
            shape("form", *CUDA_FORMS[problem_id]),
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
        shape("load", *CUDA_LOADS),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
    """Too many parts, or too few threads to hide memory."""
    threads, scheduled = int(genome["threads"]), genome["schedule"] != "grid" and genome["plan"] != "blocks"
    if genome["plan"] == "blocks" and threads * int(genome["unroll"]) * int(genome["vector"]) < 2048:
        return "too many parts"
    if scheduled and not 512 <= int(genome["per_sm"]) * threads <= 2048:
        return "too few or too many threads on an SM"
    return None


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    flat = problem_id in FLAT
    parameters, names = NAMES.get(problem_id, ("", "predictions, targets"))
    code = render(
        "rowwise/loss.cu",
        **genome,
        problem=problem_id,
        flat=flat,
        term=CUDA_FORMS[problem_id][str(genome["form"])] if flat else "",
        expo=str(genome["form"]),
        parameters=parameters,
        names=names,
        lead=names.split(",")[0],
        store="plain",
        exported=instances(int(genome["vector"]), "kernel"),
    )
    return without_blank_lines_inside(code)


FAMILIES = (
    Family("loss_triton", Backend.TRITON, (*BY_ROW, *FLAT), triton_genes, triton_text, triton_invalid),
    Family("loss_cuda", Backend.CUDA, (*BY_ROW, *FLAT), cuda_genes, cuda_text, cuda_invalid),
)
