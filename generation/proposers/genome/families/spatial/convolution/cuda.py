"""Dense convolutions in CUDA: a register tile per thread, or an implicit GEMM staged through shared memory."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution.cuda_kernel import (
    direct_body,
    render_with,
    staged_body,
    threads_of,
)
from kbench.generation.proposers.genome.families.spatial.convolution.form import (
    FORMS,
    MANY_CHANNELS,
)
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend


def shared_genes(problem: str) -> list[Gene]:
    """Genes that both algorithms have for a problem."""
    form = FORMS[problem]
    genes = [Gene("pixels", ("adjacent", "strided"), structural=True)]
    if form.phased:
        genes.append(Gene("phased", (True, False), structural=True))
    if form.has_epilogue:
        genes.append(Gene("epilogue", ("fused", "separate"), structural=True))
    if any(f"{name}(" in form.before + form.after for name in ("tanh_", "sigmoid", "mish")):
        genes.append(Gene("math", ("precise", "fast")))
    if problem in MANY_CHANNELS:
        genes.append(Gene("splits", (1, 1, 2, 4), structural=True))
    return genes


def direct_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the direct form."""
    return (
        *shared_genes(problem),
        Gene("order", ("channels_outer", "taps_outer"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("weights", ("shared", "global"), structural=True),
        Gene("tc", (1, 2, 4, 8, 16)),
        Gene("tp", (1, 2, 4)),
        Gene("threads", (64, 128, 256)),
    )


def staged_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the staged form."""
    return (
        *shared_genes(problem),
        Gene("buffers", ("single", "double"), structural=True),
        Gene("bc", (16, 32, 64)),
        Gene("bp", (32, 64, 128)),
        Gene("bk", (8, 16)),
        Gene("tc", (2, 4, 8)),
        Gene("tp", (2, 4, 8)),
        Gene("pad", (0, 1, 4)),
    )


def repeats(problem: str, genome: Genome) -> str | None:
    """Why a genome cannot be, or only repeats another one."""
    fused = genome.get("epilogue", "fused") == "fused"
    if fused and int(genome.get("splits", 1)) > 1 and FORMS[problem].has_epilogue:
        return "a split sum cannot fuse its epilogue"
    return None


def direct_invalid(problem: str, genome: Genome) -> str | None:
    """Register tiles that are too large or too small."""
    each = int(genome["tc"]) * int(genome["tp"])
    limit = 16 if FORMS[problem].window > 1 else 32
    if not 2 <= each <= limit:
        return f"{each} accumulators per thread"
    if int(genome["tp"]) == 1 and genome["pixels"] == "strided":
        return "one pixel per thread has no stride"
    if genome.get("phased") and genome["taps"] == "unrolled":
        return "a phase's taps are counted at run time"
    return repeats(problem, genome)


def staged_invalid(problem: str, genome: Genome) -> str | None:
    """Blocks that are too small or too large."""
    threads = threads_of(genome)
    if not 64 <= threads <= 512:
        return f"{threads} threads per block"
    each = int(genome["tc"]) * int(genome["tp"])
    if FORMS[problem].window > 1 and each > 32:
        return "two tiles per thread must fit the registers"
    return repeats(problem, genome)


FAMILIES: tuple[Family, ...] = (
    Family(
        name="conv_direct_cuda",
        backend=Backend.CUDA,
        problems=tuple(FORMS),
        genes=direct_genes,
        render=render_with(direct_body),
        invalid=direct_invalid,
    ),
    Family(
        name="conv_staged_cuda",
        backend=Backend.CUDA,
        problems=tuple(FORMS),
        genes=staged_genes,
        render=render_with(staged_body),
        invalid=staged_invalid,
    ),
)
