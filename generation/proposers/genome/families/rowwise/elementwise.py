"""Activations, gated units and rotary embeddings: one pass over memory, walked in several ways."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.rowwise.parts import (
    CUDA_LOADS,
    CUDA_STORES,
    TRITON_LOADS,
    TRITON_STORES,
    instances,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render
from kbench.generation.proposers.genome.templated import pick, shape
from kbench.schemas import Backend

TRITON_FORMS = {
    "relu": ("maximum", "select", "halves"),
    "sigmoid": ("divide", "library", "base2", "stable"),
    "tanh": ("shifted", "library", "ratio", "base2"),
    "swish": ("divide", "library", "base2"),
    "gelu": ("erf", "polynomial", "split"),
    "gelu_tanh": ("logistic", "library", "tanh", "factored"),
    "softplus": ("plain", "stable", "base2"),
    "softsign": ("divide", "reciprocal", "select"),
    "elu": ("select", "clamped", "base2"),
}
"""Ways to write each activation in Triton; every one keeps the error below the problems' tolerance (1e-6 absolute, 1e-5
relative), which hardware tanh does not."""
CUDA_FORMS = {
    "relu": ("maximum", "select", "halves"),
    "sigmoid": ("precise", "fast", "reciprocal"),
    "tanh": ("library", "fast", "ratio"),
    "swish": ("precise", "fast", "reciprocal"),
    "gelu": ("erf", "normal", "polynomial"),
    "gelu_tanh": ("tanh", "logistic", "fast"),
    "softplus": ("library", "fast", "stable"),
    "softsign": ("precise", "fast", "reciprocal"),
    "elu": ("library", "fast", "clamped"),
}
"""The same in CUDA C++."""
GATES = {"swiglu": "swish", "geglu": "gelu_tanh"}
"""Gated units by the activation of their gate."""
PROBLEMS = (*TRITON_FORMS, *GATES, "rope")


def _activation(problem_id: str) -> str:
    """The activation that a problem applies; empty where it has none."""
    return "" if problem_id == "rope" else GATES.get(problem_id, problem_id)


TRITON_WALKS = ("blocks", "unrolled", "strided", "chunk", "coarse", "tile", "rows")
TRITON_POINTERS = {"swiglu": "x_ptr", "geglu": "gate_ptr, up_ptr", "rope": "x_ptr, cos_ptr, sin_ptr"}
TRITON_ARGUMENTS = {"swiglu": "x", "geglu": "gate, up", "rope": "x, cos, sin"}


def triton_genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk and form change the code; the rest its numbers and hints."""
    return (
        shape("walk", *(walk for walk in TRITON_WALKS if problem_id != "rope" or walk != "rows")),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else TRITON_FORMS[_activation(problem_id)])),
        shape("load", *TRITON_LOADS),
        shape("store", *TRITON_STORES),
        pick("block", *((64, 128) if problem_id == "rope" else ()), 256, 512, 1024, 2048, 4096),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
        pick("stages", 1, 2, 4),
        pick("warps", 1, 2, 4, 8, 16),
    )


def triton_invalid(problem_id: str, genome: Genome) -> str | None:
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


def triton_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    return render(
        "rowwise/elementwise.py",
        **dict(genome) | {"load": TRITON_LOADS[str(genome["load"])], "store": TRITON_STORES[str(genome["store"])]},
        problem=problem_id,
        activation=_activation(problem_id),
        pointers=TRITON_POINTERS.get(problem_id, "x_ptr"),
        arguments=TRITON_ARGUMENTS.get(problem_id, "x"),
        flat=genome["walk"] not in ("tile", "rows"),
        pairs=genome["form"] != "singles",
    )


CUDA_WALKS = ("single", "unrolled", "strided", "coarse", "rows", "batched", "staged")

CUDA_INPUTS = {
    "swiglu": ("const bf16* __restrict__ x", "x", "bf16"),
    "geglu": ("const bf16* __restrict__ gate, const bf16* __restrict__ up", "gate, up", "bf16"),
    "rope": (
        "const bf16* __restrict__ x, const float* __restrict__ cos, const float* __restrict__ sin",
        "x, cos, sin",
        "bf16",
    ),
}


def _walks(problem_id: str) -> tuple[str, ...]:
    if problem_id in CUDA_FORMS:
        return CUDA_WALKS
    return CUDA_WALKS[:4] if problem_id == "rope" else CUDA_WALKS[:5]


def cuda_genes(problem_id: str) -> tuple[Gene, ...]:
    """Walk, form and pack width change the code; the rest its numbers and hints."""
    return (
        shape("walk", *_walks(problem_id)),
        shape("form", *(("pairs", "singles") if problem_id == "rope" else CUDA_FORMS[_activation(problem_id)])),
        shape("vector", 1, 2, 4, 8),
        shape("load", *CUDA_LOADS),
        shape("store", *CUDA_STORES),
        pick("threads", 64, 128, 256, 512, 1024),
        pick("unroll", 2, 4, 8),
        pick("per_sm", 1, 2, 4, 8, 16),
    )


def cuda_invalid(problem_id: str, genome: Genome) -> str | None:
    """More threads, registers or shared memory than there are."""
    threads, unroll, vector = int(genome["threads"]), int(genome["unroll"]), int(genome["vector"])
    if genome["walk"] == "staged" and threads * unroll * vector * 4 > 48 * 1024:
        return "more than 48 KiB of shared memory"
    if genome["walk"] == "batched" and unroll * vector > 32:
        return "more than 32 elements per thread"
    if genome["walk"] == "strided" and int(genome["per_sm"]) * threads > 2048:
        return "more threads than an SM holds"
    return None


def cuda_text(problem_id: str, genome: Genome) -> str:
    """Kernel source."""
    form = str(genome["form"])
    parameters, names, kind = CUDA_INPUTS.get(problem_id, ("const float* __restrict__ x", "x", "float"))
    per_thread = int(genome["unroll"]) if genome["walk"] in ("unrolled", "coarse", "batched", "staged") else 1
    return render(
        "rowwise/elementwise.cu",
        **genome,
        problem=problem_id,
        activation=_activation(problem_id),
        parameters=parameters,
        names=names,
        kind=kind,
        exported=instances(int(genome["vector"]), "kernel"),
        pairs=form != "singles",
        per_block=int(genome["threads"]) * per_thread,
    )


FAMILIES = (
    Family("elementwise_triton", Backend.TRITON, PROBLEMS, triton_genes, triton_text, triton_invalid),
    Family("elementwise_cuda", Backend.CUDA, PROBLEMS, cuda_genes, cuda_text, cuda_invalid),
)
