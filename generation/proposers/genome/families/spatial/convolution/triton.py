"""Dense convolutions in Triton: direct, implicit GEMM, and GEMM over columns written out first."""

from __future__ import annotations

from kbench.generation.proposers.genome.families.spatial.convolution.form import (
    FORMS,
    MANY_CHANNELS,
    flag,
)
from kbench.generation.proposers.genome.families.spatial.convolution.triton_kernel import render_with
from kbench.generation.proposers.genome.families.spatial.convolution.triton_loops import direct_loop, gemm_loop
from kbench.generation.proposers.genome.family import Family, Gene, Genome
from kbench.schemas import Backend

ROW_WIDTHS = {
    "conv2d_asymmetric": 256, "conv2d_square": 256, "pointwise_conv2d": 256, "conv2d_mish_mish": 128,
    "conv2d_relu_hardswish": 128, "transposed_conv2d": 128, "conv3d_scaling_tanh_multiply_sigmoid": 32,
    "conv2d_tanh_scaling_bias_max_pool": 32,
}  # fmt: skip
"""Widest useful row tile where it is not 64: more pixels than a row has would leave lanes idle."""


def shared_genes(problem: str) -> list[Gene]:
    """Genes that every algorithm has for a problem."""
    form = FORMS[problem]
    genes = [
        Gene("swapped", (False, True), structural=True),
        Gene("grid", ("channels_fast", "pixels_fast"), structural=True),
        Gene("persistent", (False, True), structural=True),
        Gene("programs", (264, 528, 1056)),
    ]
    if form.phased:
        genes.append(Gene("phased", (True, False), structural=True))
    if form.has_epilogue:
        genes.append(Gene("epilogue", ("fused", "separate"), structural=True))
    if problem in MANY_CHANNELS:
        genes.append(Gene("splits", (1, 1, 2, 4), structural=True))
    return genes


def direct_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the direct form."""
    tiles = ("flat", "row") if len(FORMS[problem].axes) > 1 else ("flat",)
    return (
        *shared_genes(problem),
        Gene("tile", tiles, structural=True),
        Gene("order", ("channels_outer", "taps_outer"), structural=True),
        Gene("taps", ("unrolled", "looped"), structural=True),
        Gene("block_c", (2, 4, 8, 16, 32)),
        Gene("block_p", (32, 64, 128, 256, 512)),
        Gene("warps", (2, 4, 8)),
    )


def gemm_genes(problem: str) -> tuple[Gene, ...]:
    """Genes of the implicit and explicit GEMM forms."""
    form = FORMS[problem]
    orders = ("channels_outer", "taps_outer") if problem in MANY_CHANNELS else ("channels_outer",)
    genes = [
        *shared_genes(problem),
        Gene("tile", ("flat",)),
        Gene("order", orders, structural=True),
        Gene("block_c", (16, 32, 64)),
        Gene("block_p", (32, 64, 128, 256)),
        Gene("block_k", (16, 32)),
        Gene("warps", (4, 8)),
        Gene("stages", (1, 2, 3)),
    ]
    if not form.transposed:
        genes.append(Gene("columns", ("gathered", "gathered", "stored"), structural=True))
    if not form.half:
        genes.append(Gene("precision", ("ieee", "tf32x3"), structural=True))
    return tuple(genes)


def repeats(problem: str, genome: Genome) -> str | None:
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


def direct_invalid(problem: str, genome: Genome) -> str | None:
    """Tiles that would spill or leave lanes idle."""
    each = int(genome["block_c"]) * int(genome["block_p"]) / (32 * int(genome["warps"]))
    if not 1 <= each <= 64:
        return f"{each:g} accumulators per thread"
    if FORMS[problem].window > 1 and each > 32:
        return "two tiles per thread must fit the registers"
    if genome["tile"] == "row" and int(genome["block_p"]) > ROW_WIDTHS.get(problem, 64):
        return "a row is shorter than the tile"
    if len(FORMS[problem].axes) == 3 and flag(genome, "phased") and genome["taps"] == "unrolled":
        return "eight compilations of unrolled taps"
    return repeats(problem, genome)


def gemm_invalid(problem: str, genome: Genome) -> str | None:
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
    return repeats(problem, genome)


FAMILIES: tuple[Family, ...] = (
    Family(
        name="conv_direct_triton",
        backend=Backend.TRITON,
        problems=tuple(FORMS),
        genes=direct_genes,
        render=render_with(direct_loop),
        invalid=direct_invalid,
    ),
    Family(
        name="conv_gemm_triton",
        backend=Backend.TRITON,
        problems=tuple(FORMS),
        genes=gemm_genes,
        render=render_with(gemm_loop),
        invalid=gemm_invalid,
    ),
)
