"""The selective scan: step by step, associative or closed form, over states or over time."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend


def _triton_limits(genome: Genome) -> str | None:
    if genome["method"] == "steps" and genome["chunk"] != 32:
        return "chunks belong to the scans"
    if genome["method"] == "closed" and int(genome["chunk"]) > 64:
        return "the closed form's exponentials grow with the chunk"
    if genome["method"] != "steps" and int(genome["chunk"]) > 128 * int(genome["warps"]):
        return "long chunks on few threads compile for minutes"
    if genome["method"] != "steps" and int(genome["rows"]) > 4:
        return "rows run one after the other"
    return None


def _cuda_limits(genome: Genome) -> str | None:
    threads, lanes, part = int(genome["threads"]), int(genome["lanes"]), int(genome["part"])
    if genome["method"] == "time" and (lanes != 4 or genome["stage"] or part != 32 or genome["unroll"] != 1):
        return "lanes and stages belong to the state form"
    if not genome["stage"] and part != 32:
        return "parts belong to the staged form"
    if genome["stage"] and (genome["unroll"] != 1 or (2 * threads // lanes + 32) * (part + 1) * 4 > 48_000):
        return "shared memory"
    return None


FAMILIES = (
    templated(
        "state_scan_triton",
        Backend.TRITON,
        "selective_scan",
        "sequence/state_scan.py",
        shape("method", "steps", "associative", "closed"),
        shape("base", "e", "two"),
        shape("rows", 1, 2, 4, 8, 16, 32),
        pick("chunk", 16, 32, 64, 128, 256, 512),
        pick("warps", 1, 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "state_scan_cuda",
        Backend.CUDA,
        "selective_scan",
        "sequence/state_scan.cu",
        shape("method", "states", "states", "time"),
        shape("lanes", 1, 2, 4, 8, 16),
        shape("stage", False, True),
        shape("fast", True, False),
        pick("part", 16, 32, 64),
        pick("threads", 32, 64, 128, 256),
        pick("unroll", 1, 2, 4),
        invalid=_cuda_limits,
    ),
)
