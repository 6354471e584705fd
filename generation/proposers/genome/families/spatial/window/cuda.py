"""Pooling and depthwise windows in CUDA: straight from memory, from a staged tile, or one pass per axis."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.window.cuda_kernel import (
    READS,
    render_direct,
    render_separable,
    render_staged,
    tile_extent,
)
from kbench.generation.proposers.genome.families.spatial.window.form import FORMS, SEPARABLE
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend


def direct_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the form that reads every tap from memory."""
    return (
        Gene("mapping", ("adjacent", "strided", "grid_stride"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("read", tuple(READS)),
        Gene("each", (1, 2, 4, 8)),
        Gene("threads", (64, 128, 256, 512)),
    )


def direct_invalid(problem: str, genome: Genome) -> str | None:
    """Genes that would change nothing must hold their first value."""
    if genome["mapping"] == "grid_stride" and genome["each"] != 1:
        return "a grid-stride loop has no fixed share"
    if genome["mapping"] == "strided" and genome["each"] == 1:
        return "one output per thread has no stride"
    return None


def staged_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the staged form."""
    form = FORMS[problem]
    reductions = ("full", "separable") if problem in SEPARABLE else ("full",)
    return (
        Gene("reduction", reductions, structural=True),
        Gene("tw", (32, 64, 128) if len(form.taps) > 1 else (128, 256, 512, 1024)),
        Gene("th", (2, 4, 8, 16) if len(form.taps) > 1 else (1,)),
        Gene("pad", (0, 1)),
        Gene("read", tuple(READS)),
        Gene("threads", (64, 128, 256)),
    )


def staged_invalid(problem: str, genome: Genome) -> str | None:
    """Tiles that do not fit shared memory or leave threads idle."""
    form = FORMS[problem]
    tw, th = int(genome["tw"]), int(genome["th"])
    if not int(genome["threads"]) <= tw * th <= 16 * int(genome["threads"]):
        return "outputs do not fit the threads"
    rows = tile_extent(form, "h", th) if len(form.taps) > 1 else 1
    words = rows * (tile_extent(form, "w", tw) + 1) + (rows * tw if genome["reduction"] == "separable" else 0)
    return "more than 48 KiB of shared memory" if 4 * words > 48 * 1024 else None


def separable_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the pass-per-axis form."""
    return (
        Gene("order", ("inner_first", "outer_first"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("read", tuple(READS)),
        Gene("each", (1, 2, 4)),
        Gene("threads", (128, 256, 512)),
    )


FAMILIES: tuple[Family, ...] = (
    Family(
        name="window_direct_cuda",
        backend=Backend.CUDA,
        problems=tuple(FORMS),
        genes=direct_genes,
        render=render_direct,
        invalid=direct_invalid,
    ),
    Family(
        name="window_staged_cuda",
        backend=Backend.CUDA,
        problems=tuple(FORMS),
        genes=staged_genes,
        render=render_staged,
        invalid=staged_invalid,
    ),
    Family(
        name="window_separable_cuda",
        backend=Backend.CUDA,
        problems=SEPARABLE,
        genes=separable_genes,
        render=render_separable,
    ),
)
