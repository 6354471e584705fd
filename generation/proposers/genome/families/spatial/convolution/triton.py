"""Convolutions in Triton: direct, implicit GEMM, and GEMM over columns written out first."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution.form import (
    FORMS,
    MANY_CHANNELS,
    common_genes,
    values,
)
from kbench.generation.proposers.genome.family import Gene, Genome
from kbench.generation.proposers.genome.templated import pick, shape, varied
from kbench.schemas import Backend

ROW_WIDTHS = {
    "conv2d_asymmetric": 256, "conv2d_square": 256, "pointwise_conv2d": 256, "conv2d_mish_mish": 128,
    "conv2d_relu_hardswish": 128, "transposed_conv2d": 128, "conv3d_scaling_tanh_multiply_sigmoid": 32,
    "conv2d_tanh_scaling_bias_max_pool": 32,
}  # fmt: skip
"""Widest useful row tile where it is not 64: more pixels than a row has would leave lanes idle."""


def _shared_genes(problem: str) -> tuple[Gene, ...]:
    return (
        shape("swapped", False, True),
        shape("grid", "channels_fast", "pixels_fast"),
        shape("persistent", False, True),
        pick("programs", 264, 528, 1056),
        *(gene for name, gene in common_genes(problem).items() if name != "math"),
    )


def _direct_genes(problem: str) -> tuple[Gene, ...]:
    return (
        *_shared_genes(problem),
        shape("tile", *(("flat", "row") if len(FORMS[problem].axes) > 1 else ("flat",))),
        shape("order", "channels_outer", "taps_outer"),
        shape("taps", "unrolled", "looped"),
        pick("block_c", 2, 4, 8, 16, 32),
        pick("block_p", 32, 64, 128, 256, 512),
        pick("warps", 2, 4, 8),
    )


def _gemm_genes(problem: str) -> tuple[Gene, ...]:
    form = FORMS[problem]
    return (
        *_shared_genes(problem),
        pick("tile", "flat"),
        shape("order", "channels_outer", *(("taps_outer",) if problem in MANY_CHANNELS else ())),
        pick("block_c", 16, 32, 64),
        pick("block_p", 32, 64, 128, 256),
        pick("block_k", 16, 32),
        pick("warps", 4, 8),
        pick("stages", 1, 2, 3),
        *(() if form.transposed else (shape("columns", "gathered", "gathered", "stored"),)),
        *(() if form.half else (shape("precision", "ieee", "tf32x3"),)),
    )


def _repeats(problem: str, genome: Genome) -> str | None:
    """Why a genome only repeats another one: genes that change nothing must hold their first value."""
    form = FORMS[problem]
    if not genome["persistent"] and genome["programs"] != 264:
        return "programs matters only to a persistent grid"
    fused = genome.get("epilogue", "fused") == "fused" and int(genome.get("splits", 1)) == 1
    if fused and (form.over_channels or form.total) and genome["grid"] != "channels_fast":
        return "this epilogue fixes the grid order"
    if not fused and form.has_epilogue and genome["epilogue"] == "fused":
        return "a split sum cannot fuse its epilogue"
    return None


def _direct_limits(problem: str, genome: Genome) -> str | None:
    """Tiles that would spill or leave lanes idle."""
    each = int(genome["block_c"]) * int(genome["block_p"]) / (32 * int(genome["warps"]))
    if not 1 <= each <= 64:
        return f"{each:g} accumulators per thread"
    if FORMS[problem].window > 1 and each > 32:
        return "two tiles per thread must fit the registers"
    if genome["tile"] == "row" and int(genome["block_p"]) > ROW_WIDTHS.get(problem, 64):
        return "a row is shorter than the tile"
    if len(FORMS[problem].axes) == 3 and genome.get("phased") and genome["taps"] == "unrolled":
        return "eight compilations of unrolled taps"
    return _repeats(problem, genome)


def _gemm_limits(problem: str, genome: Genome) -> str | None:
    """Tiles that would spill, and stored columns where they cannot serve."""
    form = FORMS[problem]
    each = int(genome["block_c"]) * int(genome["block_p"]) / (32 * int(genome["warps"]))
    if not 4 <= each <= 64:
        return f"{each:g} accumulators per thread"
    if genome.get("columns") == "stored":
        if form.window > 1 and genome["epilogue"] == "fused":
            return "stored columns hold single outputs, not windows"
        if int(genome.get("splits", 1)) > 1 or genome["order"] == "taps_outer":
            return "stored columns are summed in one piece, in order"
    return _repeats(problem, genome)


ALL = tuple(FORMS)
KERNEL = "spatial/convolution.py"
FAMILIES = (
    varied("conv_direct_triton", Backend.TRITON, ALL, KERNEL, _direct_genes, _direct_limits, values),
    varied("conv_gemm_triton", Backend.TRITON, ALL, KERNEL, _gemm_genes, _gemm_limits, values),
)
