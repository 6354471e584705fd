"""Convolutions in CUDA: register tiles fed from memory or through shared memory, and input tiles with their halo."""

from __future__ import annotations

from typing import Any

from kbench.generation.proposers.genome.families.spatial.convolution.form import FORMS, common_genes, values
from kbench.generation.proposers.genome.family import Gene, Genome
from kbench.generation.proposers.genome.templated import pick, shape, varied
from kbench.schemas import Backend

PIXELS = shape("pixels", "adjacent", "strided")
TAPS = shape("taps", "unrolled", "looped")


def _direct_genes(problem: str) -> tuple[Gene, ...]:
    return (
        PIXELS,
        *common_genes(problem).values(),
        shape("order", "channels_outer", "taps_outer"),
        TAPS,
        shape("weights", "shared", "global"),
        pick("tc", 1, 2, 4, 8, 16),
        pick("tp", 1, 2, 4),
        pick("threads", 64, 128, 256),
    )


def _staged_genes(problem: str) -> tuple[Gene, ...]:
    return (
        PIXELS,
        *common_genes(problem).values(),
        shape("buffers", "single", "double"),
        pick("bc", 16, 32, 64),
        pick("bp", 32, 64, 128),
        pick("bk", 8, 16),
        pick("tc", 2, 4, 8),
        pick("tp", 2, 4, 8),
        pick("pad", 0, 1, 4),
    )


def _repeats(problem: str, genome: Genome) -> str | None:
    fused = genome.get("epilogue", "fused") == "fused"
    if fused and int(genome.get("splits", 1)) > 1 and FORMS[problem].has_epilogue:
        return "a split sum cannot fuse its epilogue"
    return None


def _direct_limits(problem: str, genome: Genome) -> str | None:
    """Register tiles that are too large or too small."""
    each = int(genome["tc"]) * int(genome["tp"])
    if not 2 <= each <= (16 if FORMS[problem].window > 1 else 32):
        return f"{each} accumulators per thread"
    if int(genome["tp"]) == 1 and genome["pixels"] == "strided":
        return "one pixel per thread has no stride"
    if genome.get("phased") and genome["taps"] == "unrolled":
        return "a phase's taps are counted at run time"
    return _repeats(problem, genome)


def _staged_threads(genome: Genome) -> int:
    return int(genome["bc"]) // int(genome["tc"]) * (int(genome["bp"]) // int(genome["tp"]))


def _staged_limits(problem: str, genome: Genome) -> str | None:
    """Blocks that are too small or too large."""
    threads = _staged_threads(genome)
    if not 64 <= threads <= 512:
        return f"{threads} threads per block"
    if FORMS[problem].window > 1 and int(genome["tc"]) * int(genome["tp"]) > 32:
        return "two tiles per thread must fit the registers"
    return _repeats(problem, genome)


def _halo_genes(problem: str) -> tuple[Gene, ...]:
    form = FORMS[problem]
    flat, common = len(form.axes) == 1, common_genes(problem)
    epilogue = (common["epilogue"] if form.plain else shape("epilogue", "separate"),) if form.has_epilogue else ()
    return (
        PIXELS,
        TAPS,
        pick("tw", *((64, 128, 256, 512) if flat else (16, 32, 64))),
        pick("th", *((1,) if flat else (2, 4, 8, 16))),
        pick("ex", 1, 2, 4),
        pick("tc", 2, 4, 8, 16, 32),
        pick("ck", 1, 2, 4, 8),
        *epilogue,
        *((common["math"],) if form.exponential else ()),
    )


def _halo_sizes(problem: str, genome: Genome) -> dict[str, int]:
    """Every size a function is compiled for."""
    form = FORMS[problem]
    tw, th, ex, tc, ck = (int(genome[name]) for name in ("tw", "th", "ex", "tc", "ck"))
    return {
        "TW": tw, "TH": th, "EX": ex, "TX": tw // ex, "THREADS": tw // ex * th, "TC": tc, "CK": ck,
        "KD": dict(form.loops).get("d", 1), "IH": form.reach("h", th), "IW": form.reach("w", tw),
        "TAPS": form.tap_count,
    }  # fmt: skip


def _halo_limits(problem: str, genome: Genome) -> str | None:
    """Blocks of a poor size and tiles that do not fit shared memory."""
    sizes = _halo_sizes(problem, genome)
    if not 64 <= sizes["THREADS"] <= 512:
        return f"{sizes['THREADS']} threads per block"
    if not 4 <= sizes["TC"] * sizes["EX"] <= 64:
        return f"{sizes['TC'] * sizes['EX']} accumulators per thread"
    if sizes["EX"] == 1 and genome["pixels"] == "strided":
        return "one pixel per thread has no stride"
    words = sizes["CK"] * (sizes["KD"] * sizes["IH"] * sizes["IW"] + sizes["TAPS"] * sizes["TC"])
    return "more than 48 KiB of shared memory" if 4 * words > 48 * 1024 else None


def _direct_values(problem: str, genome: Genome) -> dict[str, Any]:
    return {**values(problem, genome), "staged": False}


def _staged_values(problem: str, genome: Genome) -> dict[str, Any]:
    return {**values(problem, genome), "staged": True, "threads": _staged_threads(genome)}


def _halo_values(problem: str, genome: Genome) -> dict[str, Any]:
    return {**values(problem, genome), "sizes": _halo_sizes(problem, genome)}


ALL = tuple(FORMS)
STRAIGHT = tuple(name for name, form in FORMS.items() if not form.transposed)
KERNEL, HALO = "spatial/convolution.cu", "spatial/convolution_halo.cu"
FAMILIES = (
    varied("conv_direct_cuda", Backend.CUDA, ALL, KERNEL, _direct_genes, _direct_limits, _direct_values),
    varied("conv_staged_cuda", Backend.CUDA, ALL, KERNEL, _staged_genes, _staged_limits, _staged_values),
    varied("conv_halo_cuda", Backend.CUDA, STRAIGHT, HALO, _halo_genes, _halo_limits, _halo_values),
)
