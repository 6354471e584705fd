"""Scans: running sums and products along rows, and one long prefix sum."""

from __future__ import annotations

import dataclasses
import functools
import math

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    alternating,
    constant_rows,
    large,
    one_hot,
    outliers,
    sorted_rows,
)
from kbench.benchmark.problems.adversarial.changes import alternate, multiply_some, repeat_one, scale, some_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Fill, Params, Sized, booleans, integers, tensors, uniform
from kbench.benchmark.problems.lazy_torch import Tensor, torch

SUM_CASES = (large("x", factor=1e6), alternating("x"), one_hot("x"), outliers("x", atol_scale=50.0), constant_rows("x"))
SIGNED_FACTORS = InputCase(
    "signs", "Negative factors find products taken through logarithms.", {"x": alternate()}, unit=0
)
ZERO_FACTOR = InputCase(
    "zero",
    "A zero ends the product of its row and finds divisions and logarithms.",
    {"x": some_rows(multiply_some(0.0))},
    unit=0,
)
# Of whole rows: two in one row would overflow in some order of products and not in another.
ONE_LARGE_FACTOR = dataclasses.replace(outliers("x", factor=1e6, atol_scale=1.0), unit=1)
EMPTY_MASK = InputCase(
    "empty_mask",
    "Rows of which the mask selects nothing find sums that are not reset.",
    {"mask": some_rows(lambda generator, x: x & False)},
    unit=0,
)
REPEATS = InputCase("repeats", "One number at half of all places finds shortcuts for runs.", {"x": repeat_one}, unit=0)
RISING = InputCase(
    "positive",
    "Steps of one sign reach the largest sums and find narrow integers.",
    {"x": lambda generator, x: x.abs()},
    unit=0,
)

RUNNING_SUM = Tolerance(
    2e-3, 1e-5, "float32 running sum of up to 8192 unit normals, in any order: sums of size 100, errors of 1e-4"
)
LARGE = Size("large", {"rows": 4096, "cols": 8192})
KB_V0 = Size("kb_v0", {"rows": 128, "cols": 4000})
TINY = Size("tiny", {"rows": 5, "cols": 150})


_matrix = tensors("x[rows,cols]")


def _factors(p: Params) -> Fill:
    # Factors around one, closer for longer rows, so that products neither vanish nor overflow at any length.
    spread = min(0.9, 1.8 / math.sqrt(p["cols"]))
    return uniform(1 - spread, 1 + spread)


def _elements(p: Params) -> int:
    return int(p["rows"] * p["cols"])


def cumsum(x: Tensor) -> Tensor:
    return torch.cumsum(x, dim=1)


def cumprod(x: Tensor) -> Tensor:
    return torch.cumprod(x, dim=1)


def cumsum_reverse(x: Tensor) -> Tensor:
    return torch.cumsum(x.flip(1), dim=1).flip(1)


def masked_cumsum(x: Tensor, mask: Tensor) -> Tensor:
    return torch.cumsum(x * mask, dim=1)


def prefix_sum(x: Tensor) -> Tensor:
    return torch.cumsum(x, dim=0, dtype=torch.int32)


problem = functools.partial(
    ProblemDefinition, family="scan", outputs=tensors("y[rows,cols]"), flops=_elements, tiny=TINY, tolerance=RUNNING_SUM
)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="cumsum", title="Cumulative sum along rows", reference=cumsum,
        description="Inclusive running sum along each row of a float32 matrix.",
        inputs=_matrix,
        sizes=(LARGE, KB_V0),
        aliases=("kernelbench/v0/L1/89",), cases=SUM_CASES,
    ),
    problem(
        id="cumprod", title="Cumulative product along rows", reference=cumprod,
        description="Inclusive running product along each row of a float32 matrix of factors around one.",
        inputs=tensors("x[rows,cols]", x=Sized(_factors)),
        sizes=(Size("large", {"rows": 8192, "cols": 4096}), KB_V0),
        tolerance=Tolerance(1e-6, 5e-5, "float32 running product of up to 4096 factors: errors grow as the root"),
        aliases=("kernelbench/v0/L1/90",),
        cases=(SIGNED_FACTORS, ZERO_FACTOR, ONE_LARGE_FACTOR, sorted_rows("x")),
    ),
    problem(
        id="cumsum_reverse", title="Reverse cumulative sum along rows", reference=cumsum_reverse,
        description="Running sum along each row of a float32 matrix from its end: element i is the sum from i on.",
        inputs=_matrix,
        sizes=(Size("large", {"rows": 4096, "cols": 8000}), KB_V0),
        aliases=("kernelbench/v0/L1/91",), cases=SUM_CASES,
    ),
    problem(
        id="masked_cumsum", title="Masked cumulative sum along rows", reference=masked_cumsum,
        description="Inclusive running sum along each row of a float32 matrix, of the elements a boolean mask selects.",
        inputs=tensors(_matrix, "mask: bool[rows,cols]", mask=booleans()), flops=lambda p: 2 * _elements(p),
        sizes=(LARGE, KB_V0),
        aliases=("kernelbench/v0/L1/93",), cases=(*SUM_CASES, EMPTY_MASK),
    ),
    problem(
        id="prefix_sum", title="Long prefix sum", reference=prefix_sum,
        description="Inclusive running sum of one long int32 vector, as stream compaction and sorting need it.",
        inputs=tensors("x: int32[length]", x=integers(-50, 51)), outputs=tensors("y: int32[length]"),
        flops=lambda p: int(p["length"]),
        sizes=(Size("long", {"length": 50_000_000}), Size("medium", {"length": 1 << 20})),
        tiny=Size("tiny", {"length": 5003}),
        tolerance=Tolerance(0.0, 0.0, "exact: integer arithmetic"),
        cases=(
            RISING, InputCase("large", "Large steps find narrow integers.", {"x": scale(1000)}, unit=0),
            alternating("x"), REPEATS,
        ),
    ),
)  # fmt: skip
