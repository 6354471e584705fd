"""Triton kernels for activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.elementwise.activations import GATES, TRITON, body, forms
from kbench.generation.proposers.genome.families.rowwise.parts.triton import LOADS, STORES
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

WALKS = ("blocks", "unrolled", "strided", "chunk", "coarse", "tile", "rows")
POINTERS = {"swiglu": "x_ptr", "geglu": "gate_ptr, up_ptr", "rope": "x_ptr, cos_ptr, sin_ptr"}
ARGUMENTS = {"swiglu": "x", "geglu": "gate, up", "rope": "x, cos, sin"}


PROBLEMS = (*TRITON, *GATES, "rope")


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk and form change the code; the rest its numbers and hints."""
    return (
        shape("walk", *(walk for walk in WALKS if problem_id != "rope" or walk != "rows")),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else forms(TRITON, problem_id))),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("block", *((64, 128) if problem_id == "rope" else ()), 256, 512, 1024, 2048, 4096),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
        pick("stages", 1, 2, 4),
        pick("warps", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Lanes without work, or more elements per lane than registers hold."""
    held = int(genome["block"]) * (int(genome["unroll"]) if genome["walk"] == "tile" else 1)
    lanes = 32 * int(genome["warps"])
    if held < lanes:
        return "fewer elements than lanes"
    if held > 32 * lanes:
        return "more than 32 elements per lane"
    if genome["walk"] in ("strided", "chunk") and int(genome["per_sm"]) * int(genome["warps"]) > 64:
        return "more programs than fit"
    if problem_id == "rope" and genome["walk"] in ("strided", "chunk") and held * int(genome["stages"]) > 8192:
        return "stages need more than 96 KiB of shared memory"
    if problem_id == "rope" and genome["walk"] == "tile" and int(genome["block"]) > 256:
        return "tiles wider than a head"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    return render(
        "rowwise/elementwise/templates/triton.py",
        **dict(genome) | {"load": LOADS[str(genome["load"])], "store": STORES[str(genome["store"])]},
        problem=problem_id,
        activation=body(TRITON, problem_id, str(genome["form"])) if problem_id != "rope" else "",
        pointers=POINTERS.get(problem_id, "x_ptr"),
        arguments=ARGUMENTS.get(problem_id, "x"),
        flat=genome["walk"] not in ("tile", "rows"),
        pairs=genome["form"] != "singles",
    )


FAMILIES = (
    Family(
        name="elementwise_triton",
        backend=Backend.TRITON,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
