"""Reductions over the middle dimension of a (batch, length, width) tensor."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    alternating,
    constant_rows,
    large,
    one_hot,
    outliers,
    sorted_rows,
    ties,
    zero_rows,
)
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import normal, tensors
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
    unit=0,
)
FAR_ABOVE = InputCase(
    "far_above",
    "Values far above zero find minima that start from zero or 1e30.",
    {"x": lambda generator, x: x.abs() * 1e35},
    unit=0,
)
SELECTION_CASES = (FAR_BELOW, FAR_ABOVE, ties("x"), constant_rows("x", dims=(1,)), sorted_rows("x", dim=1))
INDEX_CASES = (*SELECTION_CASES, zero_rows("x", dims=(1,)))
"""Zeros of both signs are equal, so the first of them is the answer."""


_kept = tensors("y[batch,1,width]")
_reduced = tensors("y[batch,width]")
_indices = tensors("y: int64[batch,width]")


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


def sizes(batch: int, length: int, width: int) -> tuple[Size, ...]:
    """A large size, and KernelBench's."""
    return (
        Size("large", {"batch": batch, "length": length, "width": width}),
        Size("kb_v0", {"batch": 16, "length": 256, "width": 256}),
    )


problem = functools.partial(
    ProblemDefinition, family="reduction", inputs=tensors("x[batch,length,width]", x=normal(1.5)),
    flops=lambda p: p["batch"] * p["length"] * p["width"],
    tiny=Size("tiny", {"batch": 3, "length": 37, "width": 21}),
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="sum_reduce", title="Sum over a dimension", reference=sum_reduce,
        description="Sum a float32 tensor (batch, length, width) over its middle dimension, which stays with size one.",
        outputs=_kept,
        sizes=sizes(64, 1024, 1024),
        tolerance=Tolerance(5e-4, 1e-5, "float32 sum of 1024 terms in any order; sums are of size 50"),
        aliases=("kernelbench/v0/L1/47",), cases=SUM_CASES,
    ),
    problem(
        id="mean_reduce", title="Mean over a dimension", reference=mean_reduce,
        description="Mean of a float32 tensor (batch, length, width) over its middle dimension.",
        outputs=_reduced,
        sizes=sizes(16, 4096, 1024),
        tolerance=Tolerance(1e-6, 1e-5, "float32 mean of up to 4096 terms in any order; means are of size 0.02"),
        aliases=("kernelbench/v0/L1/48",), cases=SUM_CASES,
    ),
    problem(
        id="max_reduce", title="Maximum over a dimension", reference=max_reduce,
        description="Largest value of a float32 tensor (batch, length, width) over its middle dimension.",
        outputs=_reduced,
        sizes=sizes(128, 512, 1280),
        tolerance=EXACT, aliases=("kernelbench/v0/L1/49",), cases=SELECTION_CASES,
    ),
    problem(
        id="argmax", title="Index of the maximum over a dimension", reference=argmax,
        description="Index (int64) of the largest value of a float32 tensor (batch, length, width) along its middle "
            "dimension; the first one where several are equal.",
        outputs=_indices,
        sizes=sizes(32, 2048, 1024),
        tolerance=EXACT, aliases=("kernelbench/v0/L1/51",), cases=INDEX_CASES,
    ),
    problem(
        id="argmin", title="Index of the minimum over a dimension", reference=argmin,
        description="Index (int64) of the smallest value of a float32 tensor (batch, length, width) along its middle "
            "dimension; the first one where several are equal.",
        outputs=_indices,
        sizes=sizes(64, 1000, 1111),
        tolerance=EXACT, aliases=("kernelbench/v0/L1/52",), cases=INDEX_CASES,
    ),
)  # fmt: skip
