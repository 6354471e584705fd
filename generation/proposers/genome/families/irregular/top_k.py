"""The largest values of a row: repeated maxima, sorting, private lists, radix or threshold selection."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    method = genome["method"]
    if method in ("select", "sort") and (genome["rows"] != 1 or genome["pick"] != "value"):
        return "rows and pick belong to the maxima"
    if method != "split" and (genome["parts"] != 4 or genome["join"] != "maxima"):
        return "parts and join belong to the split"
    if method == "sort" and genome["warps"] != 16:
        return "sorting a long row needs many warps"
    if method == "maxima" and (int(genome["rows"]) > 2 or int(genome["warps"]) < 4):
        return "a long row needs many warps"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    if genome["method"] == "lists" and (genome["unroll"] != 4 or int(genome["threads"]) > 512):
        return "lists fill the registers"
    return None


FAMILIES = (
    templated(
        "top_k_triton",
        Backend.TRITON,
        "top_k",
        "irregular/top_k.py",
        shape("method", "maxima", "split", "split", "select", "sort"),
        shape("pick", "value", "packed"),
        shape("join", "maxima", "sort"),
        pick("parts", 2, 4, 8, 16),
        pick("rows", 1, 2, 4),
        pick("warps", 1, 2, 4, 8, 16),
        invalid=_triton_limits,
    ),
    templated(
        "top_k_cuda",
        Backend.CUDA,
        "top_k",
        "irregular/top_k.cu",
        shape("method", "warp", "rounds", "staged", "lists", "radix"),
        pick("threads", 32, 64, 128, 256, 512, 1024),
        pick("unroll", 1, 2, 4, 8),
        invalid=_cuda_limits,
    ),
)
