"""CUDA kernels for activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.elementwise.activations import CUDA, GATES, body, forms
from kbench.generation.proposers.genome.families.rowwise.parts.cuda import LOADS, STORES, instances
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

WALKS = ("single", "unrolled", "strided", "coarse", "rows", "batched", "staged")

INPUTS = {
    "swiglu": ("const bf16* __restrict__ x", "x", "bf16"),
    "geglu": ("const bf16* __restrict__ gate, const bf16* __restrict__ up", "gate, up", "bf16"),
    "rope": (
        "const bf16* __restrict__ x, const float* __restrict__ cos, const float* __restrict__ sin",
        "x, cos, sin",
        "bf16",
    ),
}


PROBLEMS = (*CUDA, *GATES, "rope")


def _walks(problem_id: str) -> tuple[str, ...]:
    if problem_id in CUDA:
        return WALKS
    return WALKS[:4] if problem_id == "rope" else WALKS[:5]


def genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk, form and pack width change the code; the rest its numbers and hints."""
    return (
        shape("walk", *_walks(problem_id)),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else forms(CUDA, problem_id))),
        shape("vector", 1, 2, 4, 8),
        shape("load", *LOADS),
        shape("store", *STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
    )


def invalid(problem_id: str, genome: Genome) -> str | None:
    """More threads, registers or shared memory than there are."""
    threads, unroll, vector = int(genome["threads"]), int(genome["unroll"]), int(genome["vector"])
    if genome["walk"] == "staged" and threads * unroll * vector * 4 > 48 * 1024:
        return "more than 48 KiB of shared memory"
    if genome["walk"] == "batched" and unroll * vector > 32:
        return "more than 32 elements per thread"
    if genome["walk"] == "strided" and int(genome["per_sm"]) * threads > 2048:
        return "more threads than an SM holds"
    return None


def text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    form = str(genome["form"])
    parameters, names, kind = INPUTS.get(problem_id, ("const float* __restrict__ x", "x", "float"))
    per_thread = int(genome["unroll"]) if genome["walk"] in ("unrolled", "coarse", "batched", "staged") else 1
    return render(
        "rowwise/elementwise/templates/cuda.py",
        **genome,
        problem=problem_id,
        activation=body(CUDA, problem_id, form) if problem_id != "rope" else "",
        parameters=parameters,
        names=names,
        kind=kind,
        exported=instances(int(genome["vector"]), "kernel"),
        pairs=form != "singles",
        per_block=int(genome["threads"]) * per_thread,
    )


FAMILIES = (
    Family(
        name="elementwise_cuda",
        backend=Backend.CUDA,
        problems=PROBLEMS,
        genes=genes,
        render=text,
        invalid=invalid,
    ),
)
