"""Reductions over the middle dimension of a (batch, length, width) tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial import (
    InputCase,
    alternating,
    constant_rows,
    large,
    one_hot,
    outliers,
    sorted_rows,
    ties,
)
from kbench.benchmark.problems.definition import Params, ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import InputSpec, TensorSpec, normal
from kbench.benchmark.problems.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor

EXACT = Tolerance(0.0, 0.0, "exact: the answer is a selection, nothing is rounded")

SUM_CASES = (
    large("x", factor=1e6),
    alternating("x", dim=1),
    one_hot("x", dim=1),
    outliers("x", dim=1, atol_scale=100.0),
    constant_rows("x", dims=(1,)),
)
FAR_BELOW = InputCase(
    "far_below",
    "Values far below zero find maxima that start from zero or -1e30.",
    {"x": lambda generator, x: x.abs() * -1e35},
)
FAR_ABOVE = InputCase(
    "far_above",
    "Values far above zero find minima that start from zero or 1e30.",
    {"x": lambda generator, x: x.abs() * 1e35},
)
SELECTION_CASES = (
    FAR_BELOW,
    FAR_ABOVE,
    ties("x"),
    constant_rows("x", dims=(1,)),
    sorted_rows("x", dim=1),
)


def _cube(p: Params) -> tuple[InputSpec, ...]:
    return (TensorSpec("x", (p["batch"], p["length"], p["width"]), fill=normal(1.5)),)


def _kept(p: Params) -> tuple[TensorSpec, ...]:
    return (TensorSpec("y", (p["batch"], 1, p["width"])),)


def _reduced(p: Params) -> tuple[TensorSpec, ...]:
    return (TensorSpec("y", (p["batch"], p["width"])),)


def _indices(p: Params) -> tuple[TensorSpec, ...]:
    return (TensorSpec("y", (p["batch"], p["width"]), "int64"),)


def sum_reduce(x: Tensor) -> Tensor:
    return torch.sum(x, dim=1, keepdim=True)


def mean_reduce(x: Tensor) -> Tensor:
    return torch.mean(x, dim=1)


def max_reduce(x: Tensor) -> Tensor:
    return torch.amax(x, dim=1)


def argmax(x: Tensor) -> Tensor:
    return torch.argmax(x, dim=1)


def argmin(x: Tensor) -> Tensor:
    return torch.argmin(x, dim=1)


def _reduction(
    reference: Callable[[Tensor], Tensor],
    title: str,
    description: str,
    outputs: Callable[[Params], tuple[TensorSpec, ...]],
    large: tuple[int, int, int],
    tolerance: Tolerance,
    kernelbench_id: int,
    cases: tuple[InputCase, ...],
) -> ProblemDefinition:
    batch, length, width = large
    return ProblemDefinition(
        id=reference.__name__,
        title=title,
        family="reduction",
        description=description,
        reference=reference,
        inputs=_cube,
        outputs=outputs,
        flops=lambda p: p["batch"] * p["length"] * p["width"],
        sizes=(
            Size("large", {"batch": batch, "length": length, "width": width}),
            Size("kb_v0", {"batch": 16, "length": 256, "width": 256}),
        ),
        tiny=Size("tiny", {"batch": 3, "length": 37, "width": 21}),
        tolerance=tolerance,
        aliases=(f"kernelbench/v0/L1/{kernelbench_id}",),
        cases=cases,
    )


PROBLEMS: tuple[ProblemDefinition, ...] = (
    _reduction(
        sum_reduce, "Sum over a dimension",
        "Sum a float32 tensor (batch, length, width) over its middle dimension, which stays with size one.",
        _kept, (64, 1024, 1024),
        Tolerance(5e-4, 1e-5, "float32 sum of 1024 terms in any order; sums are of size 50"), 47, SUM_CASES,
    ),
    _reduction(
        mean_reduce, "Mean over a dimension",
        "Mean of a float32 tensor (batch, length, width) over its middle dimension.",
        _reduced, (16, 4096, 1024),
        Tolerance(1e-6, 1e-5, "float32 mean of up to 4096 terms in any order; means are of size 0.02"), 48, SUM_CASES,
    ),
    _reduction(
        max_reduce, "Maximum over a dimension",
        "Largest value of a float32 tensor (batch, length, width) over its middle dimension.",
        _reduced, (128, 512, 1280), EXACT, 49, SELECTION_CASES,
    ),
    _reduction(
        argmax, "Index of the maximum over a dimension",
        "Index (int64) of the largest value of a float32 tensor (batch, length, width) along its middle dimension;"
        " the first one where several are equal.",
        _indices, (32, 2048, 1024), EXACT, 51, SELECTION_CASES,
    ),
    _reduction(
        argmin, "Index of the minimum over a dimension",
        "Index (int64) of the smallest value of a float32 tensor (batch, length, width) along its middle dimension;"
        " the first one where several are equal.",
        _indices, (64, 1000, 1111), EXACT, 52, SELECTION_CASES,
    ),
)  # fmt: skip
