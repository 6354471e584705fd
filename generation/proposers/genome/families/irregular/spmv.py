"""Sparse matrix times vector: rows, blocks of rows, or entries with segmented sums."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] in ("entries", "runs") and genome["rows"] != 4:
        return "rows belong to the row walks"
    if int(genome["block"]) * int(genome["rows"]) > 2048 and genome["method"] in ("tile", "products"):
        return "tile too large"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] in ("entries", "runs") and (genome["lanes"] != 8 or genome["unroll"] != 1):
        return "lanes belong to the row walks"
    if genome["method"] != "stride" and genome["waves"] != 8:
        return "waves belong to the grid stride"
    return None


FAMILIES = (
    templated(
        "spmv_triton",
        Backend.TRITON,
        "spmv_csr",
        "irregular/spmv.py",
        shape("method", "row", "tile", "tile", "persistent", "products", "entries", "runs"),
        pick("block", 8, 16, 32, 64, 128),
        pick("rows", 1, 2, 4, 8, 16, 32),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "spmv_cuda",
        Backend.CUDA,
        "spmv_csr",
        "irregular/spmv.cu",
        shape("method", "rows", "rows", "stride", "entries", "runs"),
        shape("lanes", 1, 2, 4, 8, 16, 32),
        shape("read", "x[columns[i]]", "__ldg(x + columns[i])"),
        pick("threads", 64, 128, 256, 512),
        pick("unroll", 1, 2, 4),
        pick("waves", 4, 8, 16),
        invalid=_cuda_limits,
    ),
)
