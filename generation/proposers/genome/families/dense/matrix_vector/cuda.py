"""CUDA kernels of the matrix-vector product: who sums a row, how lanes join, and how parts of a row are joined."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.generation.proposers.genome.template import render as fill
from kbench.schemas import Backend

GENES = (
    Gene("owner", ("warp", "block"), structural=True),
    Gene("parts", (1, 2, 4, 8, 16, 32), structural=True),
    Gene("join", ("kernel", "last"), structural=True),
    Gene("spread", ("block", "strided"), structural=True),
    Gene("reduce", ("shuffle", "tree"), structural=True),
    Gene("x_from", ("cache", "shared"), structural=True),
    Gene("chains", (1, 2, 4), structural=True),
    Gene("hint", ("plain", "streaming"), structural=True),
    Gene("vector", (1, 2, 4)),
    Gene("rows", (1, 2, 4)),
    Gene("threads", (64, 128, 256, 512)),
)


def genes(problem_id: str) -> tuple[Gene, ...]:
    """The same for every problem."""
    return GENES


def invalid(problem_id: str, genome: Genome) -> str | None:
    """Drop genes without effect, and too few threads to fill a GPU with a few hundred rows."""
    if genome["parts"] == 1 and (genome["join"], genome["spread"]) != ("kernel", "block"):
        return "one part needs no joining"
    if genome["x_from"] == "shared" and genome["spread"] != "block":
        return "a staged part of x is contiguous"
    if genome["parts"] == 1 and genome["owner"] == "warp" and int(genome["rows"]) > 1:
        return "too few threads for a few hundred long rows"
    return None


def render(problem_id: str, genome: Genome) -> str:
    """The kernel's source."""
    team = 32 if genome["owner"] == "warp" else int(genome["threads"])
    values = {
        **genome,
        "team": team,
        "per_block": int(genome["threads"]) // team * int(genome["rows"]),
        "chunk": 4096,
        "last": genome["parts"] != 1 and genome["join"] == "last",
        "load": "__ldcs" if genome["hint"] == "streaming" else "__ldg",
    }
    return fill("dense/matrix_vector/templates/cuda.py", **values)


FAMILIES = (
    Family(
        name="matrix_vector_cuda",
        backend=Backend.CUDA,
        problems=("matmul_vector",),
        genes=genes,
        render=render,
        invalid=invalid,
    ),
)
