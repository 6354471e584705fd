"""Pooling: the maximum or the mean over windows of one, two or three axes."""

from __future__ import annotations

import functools
from typing import Any

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    alternating,
    constant_rows,
    large,
    negative,
    one_hot,
    outliers,
    sorted_rows,
    ties,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.families.shared import spatial_shape, window_extent
from kbench.benchmark.problems.inputs import Params, TensorSpec
from kbench.benchmark.problems.lazy_torch import F, Tensor

FAR_BELOW = InputCase(
    "far_below",
    "Values far below zero find maxima that start from -1e30.",
    {"x": lambda generator, x: x.abs() * -1e35},
    unit=0,
)
MAXIMUM_CASES = (negative("x"), FAR_BELOW, ties("x"), sorted_rows("x"), constant_rows("x"))
MEAN_CASES = (large("x", factor=1e6), alternating("x"), one_hot("x"), outliers("x"))

SELECTION = Tolerance(1e-6, 1e-6, "a maximum is one of the inputs, so it is exact")
MEAN = Tolerance(2e-6, 1e-5, "fp32 means of 9 to 27 values; fp16 inputs err by about 1e-4")


def windows(kernel: int, stride: int, padding: int, dilation: int, dtype: str = "float32") -> dict[str, Any]:
    """What follows from the windows of a problem: inputs, outputs, and an operation for each tap."""

    def outputs(p: Params) -> tuple[TensorSpec, ...]:
        extents = (window_extent(extent, kernel, stride, padding, dilation) for extent in spatial_shape(p))
        return (TensorSpec("y", (p["n"], p["channels"], *extents), dtype),)

    return {
        "inputs": lambda p: (TensorSpec("x", (p["n"], p["channels"], *spatial_shape(p)), dtype),),
        "outputs": outputs,
        "flops": lambda p: int(outputs(p)[0].numel * kernel ** len(spatial_shape(p))),
    }


def _max_pool1d(x: Tensor) -> Tensor:
    return F.max_pool1d(x, kernel_size=4, stride=2, padding=2, dilation=3)


def _max_pool2d(x: Tensor) -> Tensor:
    return F.max_pool2d(x, kernel_size=2, stride=2, padding=1, dilation=3)


def _max_pool3d(x: Tensor) -> Tensor:
    return F.max_pool3d(x, kernel_size=3, stride=2, padding=1, dilation=3)


def _avg_pool2d(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, kernel_size=3)


def _avg_pool3d(x: Tensor) -> Tensor:
    return F.avg_pool3d(x, kernel_size=3, stride=2, padding=1)


problem = functools.partial(ProblemDefinition, family="pooling", tolerance=SELECTION, cases=MAXIMUM_CASES)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="max_pool1d", title="1D max pooling, dilated", reference=_max_pool1d,
        description="Largest of 4 values 3 positions apart; the window moves by 2 and reaches 2 positions past each "
            "end, where there is nothing to be larger than.",
        **windows(4, 2, 2, 3, "bfloat16"),
        sizes=(Size("large", {"n": 16, "channels": 64, "width": 65536}),),
        tiny=Size("tiny", {"n": 2, "channels": 3, "width": 45}),
    ),
    problem(
        id="max_pool2d", title="2D max pooling, dilated", reference=_max_pool2d,
        description="Largest of 2×2 values 3 apart; the window moves by 2 and reaches 1 pixel past each edge.",
        **windows(2, 2, 1, 3),
        sizes=(
            Size("large", {"n": 16, "channels": 64, "height": 256, "width": 256}),
            Size("medium", {"n": 16, "channels": 32, "height": 128, "width": 128}),
        ),
        tiny=Size("tiny", {"n": 2, "channels": 3, "height": 12, "width": 15}),
        aliases=("kernelbench/v0/L1/42",),
    ),
    problem(
        id="max_pool3d", title="3D max pooling, dilated", reference=_max_pool3d,
        description="Largest of 3×3×3 values 3 apart; the window moves by 2 and reaches 1 voxel past each face.",
        **windows(3, 2, 1, 3),
        sizes=(Size("large", {"n": 16, "channels": 32, "depth": 64, "height": 64, "width": 64}),),
        tiny=Size("tiny", {"n": 2, "channels": 2, "depth": 9, "height": 10, "width": 11}),
        aliases=("kernelbench/v0/L1/43",),
    ),
    problem(
        id="avg_pool2d", title="2D average pooling", reference=_avg_pool2d,
        description="Mean of adjoining 3×3 windows; rows and columns that do not fill a window are dropped.",
        **windows(3, 3, 0, 1),
        sizes=(Size("large", {"n": 16, "channels": 64, "height": 256, "width": 256}),),
        tiny=Size("tiny", {"n": 2, "channels": 3, "height": 11, "width": 16}),
        tolerance=MEAN, aliases=("kernelbench/v0/L1/45",), cases=MEAN_CASES,
    ),
    problem(
        id="avg_pool3d", title="3D average pooling, overlapping", reference=_avg_pool3d,
        description="Mean of 3×3×3 windows that move by 2; outside a face there are zeros, which count among the 27.",
        **windows(3, 2, 1, 1),
        sizes=(Size("large", {"n": 16, "channels": 32, "depth": 64, "height": 64, "width": 64}),),
        tiny=Size("tiny", {"n": 2, "channels": 2, "depth": 5, "height": 6, "width": 7}),
        tolerance=MEAN, aliases=("kernelbench/v0/L1/46",), cases=MEAN_CASES,
    ),
)  # fmt: skip
