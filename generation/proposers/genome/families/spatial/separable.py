"""Depthwise-separable convolutions: both stages in one pass, or the depthwise stage written out first."""

from __future__ import annotations

from kbench.generation.proposers.genome.family import Genome
from kbench.generation.proposers.genome.templated import pick, shape, templated
from kbench.schemas import Backend

PROBLEM = "depthwise_separable_conv2d"


def _triton_limits(genome: Genome) -> str | None:
    each = int(genome["block_c"]) * int(genome["block_p"]) // (32 * int(genome["warps"]))
    if not 4 <= each <= 64:
        return f"{each} accumulators per thread"
    if genome["product"] == "outer":
        return None if genome["block_k"] == 16 else "only tl.dot has a BLOCK_K"
    return "tl.dot needs 16 channels" if int(genome["block_c"]) < 16 else None


def _cuda_limits(genome: Genome) -> str | None:
    tc, tp = int(genome["tc"]), int(genome["tp"])
    if tc * tp > 64:
        return f"{tc * tp} accumulators per thread"
    if tp == 1 and genome["pixels"] == "strided":
        return "one pixel per thread has no stride"
    if genome["stages"] == "per_block":
        if genome["weights"] == "shared":
            return "a block that walks over all channels reads weights from memory"
        if int(genome["threads"]) * tp > 512:
            return "filtered pixels of 32 channels exceed 64 KiB"
    return None


FAMILIES = (
    templated(
        "separable_triton",
        Backend.TRITON,
        PROBLEM,
        "spatial/separable.py",
        shape("stages", "fused", "two_pass"),
        shape("product", "outer", "ieee", "tf32x3"),
        shape("swapped", False, True),
        shape("tile", "flat", "row"),
        shape("taps", "unrolled", "looped"),
        shape("grid", "channels_fast", "pixels_fast"),
        pick("block_c", 8, 16, 32, 64),
        pick("block_p", 32, 64, 128, 256),
        pick("block_k", 16, 32),
        pick("warps", 2, 4, 8),
        invalid=_triton_limits,
    ),
    templated(
        "separable_cuda",
        Backend.CUDA,
        PROBLEM,
        "spatial/separable.cu",
        shape("stages", "per_thread", "per_block", "two_pass"),
        shape("weights", "global", "shared"),
        shape("taps", "unrolled", "looped"),
        shape("pixels", "adjacent", "strided"),
        pick("tc", 1, 2, 4, 8, 16, 32),
        pick("tp", 1, 2, 4),
        pick("threads", 64, 128, 256),
        invalid=_cuda_limits,
    ),
)
