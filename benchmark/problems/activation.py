"""Activations: one output element per input element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.benchmark.problems.definition import Params, ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import InputSpec, TensorSpec, normal
from kbench.benchmark.problems.lazy_torch import F, torch

if TYPE_CHECKING:
    from torch import Tensor

FP32_ELEMENTWISE = Tolerance(1e-6, 1e-5, "float32, no reduction: a few units in the last place of the result")


def _matrix(p: Params) -> tuple[InputSpec, ...]:
    return (TensorSpec("x", (p["rows"], p["cols"]), fill=normal(2.0)),)


def _same(p: Params) -> tuple[TensorSpec, ...]:
    return (TensorSpec("y", (p["rows"], p["cols"])),)


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


PROBLEMS: tuple[ProblemDefinition, ...] = (
    ProblemDefinition(
        id="gelu_tanh",
        title="GELU, tanh form",
        family="activation",
        description="Apply the tanh approximation of GELU to every element of a float32 matrix.",
        reference=gelu_tanh,
        inputs=_matrix,
        outputs=_same,
        flops=lambda p: 8 * p["rows"] * p["cols"],
        sizes=(Size("large", {"rows": 4096, "cols": 8192}),),
        tiny=Size("tiny", {"rows": 7, "cols": 33}),
        tolerance=FP32_ELEMENTWISE,
    ),
)
