"""Transposed convolutions: every input position scatters a filter into the output."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from kbench.benchmark.problems.definition import ProblemDefinition, Size
from kbench.benchmark.problems.families.convolution import CONVOLUTION_CASES, fp32_sum
from kbench.benchmark.problems.families.extent import multiply_adds, spatial_shape, transposed_extent
from kbench.benchmark.problems.inputs import TensorSpec, normal
from kbench.benchmark.problems.lazy_torch import F

if TYPE_CHECKING:
    from torch import Tensor


def _weight(shape: tuple[int, ...], contributions: int) -> TensorSpec:
    """Filters [c_in, c_out per group, *taps], scaled by how many products meet in one output."""
    return TensorSpec("weight", shape, fill=normal(1.0 / math.sqrt(contributions)))


def _transposed_conv1d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose1d(x, weight, stride=2, padding=1)


def _transposed_conv2d(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose2d(x, weight)


def _transposed_conv3d_grouped(x: Tensor, weight: Tensor) -> Tensor:
    return F.conv_transpose3d(x, weight, stride=2, padding=1, groups=4)


problem = functools.partial(ProblemDefinition, family="transposed_convolution", cases=CONVOLUTION_CASES)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="transposed_conv1d", title="Transposed 1D convolution, stride 2", reference=_transposed_conv1d,
        description="Doubles each sequence: position i adds 4 taps at outputs 2i − 1 … 2i + 2, summed over input "
            "channels.",
        inputs=lambda p: (
            TensorSpec("x", (p["n"], p["c_in"], p["length"])), _weight((p["c_in"], p["c_out"], 4), p["c_in"] * 2),
        ),
        outputs=lambda p: (TensorSpec("y", (p["n"], p["c_out"], transposed_extent(p["length"], 4, 2, 1))),),
        flops=lambda p: multiply_adds(p["n"], [p["length"]], p["c_in"], p["c_out"], 4),
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 64, "length": 16384}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "length": 19}),
        tolerance=fp32_sum("64"),
    ),
    problem(
        id="transposed_conv2d", title="Transposed 2D convolution, 3×3", reference=_transposed_conv2d,
        description="Every pixel adds a 3×3 patch to the output (stride 1, no padding), summed over input channels.",
        inputs=lambda p: (
            TensorSpec("x", (p["n"], p["c_in"], p["height"], p["width"])),
            _weight((p["c_in"], p["c_out"], 3, 3), p["c_in"] * 9),
        ),
        outputs=lambda p: (TensorSpec("y", (p["n"], p["c_out"], p["height"] + 2, p["width"] + 2)),),
        flops=lambda p: multiply_adds(p["n"], [p["height"], p["width"]], p["c_in"], p["c_out"], 9),
        sizes=(Size("large", {"n": 16, "c_in": 32, "c_out": 64, "height": 128, "width": 128}),),
        tiny=Size("tiny", {"n": 2, "c_in": 3, "c_out": 5, "height": 8, "width": 9}),
        tolerance=fp32_sum("288"), aliases=("kernelbench/v0/L1/57",),
    ),
    problem(
        id="transposed_conv3d_grouped", title="Grouped, strided transposed 3D convolution",
        reference=_transposed_conv3d_grouped,
        description="Every voxel adds a 3×3×3 patch at stride 2 with one voxel cropped on each side; channels form 4 "
            "groups, and outputs of a group sum only over its own inputs.",
        inputs=lambda p: (
            TensorSpec("x", (p["n"], p["c_in"], *spatial_shape(p))),
            _weight((p["c_in"], p["c_out"] // 4, 3, 3, 3), p["c_in"] // 4 * 8),
        ),
        outputs=lambda p: (
            TensorSpec("y", (p["n"], p["c_out"], *(transposed_extent(extent, 3, 2, 1) for extent in spatial_shape(p)))),
        ),
        flops=lambda p: multiply_adds(p["n"], spatial_shape(p), p["c_in"], p["c_out"] // 4, 27),
        sizes=(Size("large", {"n": 4, "c_in": 32, "c_out": 64, "depth": 16, "height": 32, "width": 32}),),
        tiny=Size("tiny", {"n": 2, "c_in": 8, "c_out": 12, "depth": 3, "height": 4, "width": 5}),
        tolerance=fp32_sum("8 to 64"),
    ),
)  # fmt: skip
