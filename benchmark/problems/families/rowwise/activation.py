"""Activations: one output element per input element."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial import huge, large, wide, zero_rows
from kbench.benchmark.problems.definition import Params, ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import InputSpec, TensorSpec, normal
from kbench.benchmark.problems.lazy_torch import F, torch

if TYPE_CHECKING:
    from torch import Tensor

FP32_ELEMENTWISE = Tolerance(1e-6, 1e-5, "float32, no reduction: a few units in the last place of the result")

CASES = (large("x", factor=50.0, atol_scale=1.0), huge("x"), wide("x", decades=4.0), zero_rows("x"))


def _matrix(p: Params) -> tuple[InputSpec, ...]:
    # Twice the unit deviation reaches both tails, where activations bend and saturate.
    return (TensorSpec("x", (p["rows"], p["cols"]), fill=normal(2.0)),)


def _same(p: Params) -> tuple[TensorSpec, ...]:
    return (TensorSpec("y", (p["rows"], p["cols"])),)


def relu(x: Tensor) -> Tensor:
    return torch.relu(x)


def sigmoid(x: Tensor) -> Tensor:
    return torch.sigmoid(x)


def tanh(x: Tensor) -> Tensor:
    return torch.tanh(x)


def swish(x: Tensor) -> Tensor:
    return x * torch.sigmoid(x)


def gelu(x: Tensor) -> Tensor:
    return F.gelu(x)


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def softplus(x: Tensor) -> Tensor:
    return F.softplus(x)


def softsign(x: Tensor) -> Tensor:
    return x / (1 + torch.abs(x))


def elu(x: Tensor) -> Tensor:
    return F.elu(x, alpha=1.0)


def _activation(
    reference: Callable[[Tensor], Tensor],
    title: str,
    description: str,
    flops_per_element: int,
    sizes: tuple[Size, ...],
    aliases: tuple[str, ...],
) -> ProblemDefinition:
    return ProblemDefinition(
        id=reference.__name__,
        title=title,
        family="activation",
        description=description,
        reference=reference,
        inputs=_matrix,
        outputs=_same,
        flops=lambda p: flops_per_element * p["rows"] * p["cols"],
        sizes=sizes,
        tiny=Size("tiny", {"rows": 7, "cols": 33}),
        tolerance=FP32_ELEMENTWISE,
        aliases=aliases,
        cases=CASES,
    )


def _sizes(rows: int, cols: int) -> tuple[Size, ...]:
    return (Size("large", {"rows": rows, "cols": cols}), Size("kb_v0", {"rows": 16, "cols": 16384}))


PROBLEMS: tuple[ProblemDefinition, ...] = (
    _activation(
        relu, "ReLU",
        "Replace every negative element of a float32 matrix by zero.",
        1, _sizes(4096, 8192), ("kernelbench/v0/L1/19",),
    ),
    _activation(
        sigmoid, "Sigmoid",
        "Apply the logistic function 1 / (1 + exp(-x)) to every element of a float32 matrix.",
        4, _sizes(6144, 6144), ("kernelbench/v0/L1/21",),
    ),
    _activation(
        tanh, "Tanh",
        "Apply the hyperbolic tangent to every element of a float32 matrix.",
        5, _sizes(8192, 5000), ("kernelbench/v0/L1/22",),
    ),
    _activation(
        swish, "Swish (SiLU)",
        "Multiply every element of a float32 matrix by its own sigmoid.",
        5, _sizes(4096, 11008), ("kernelbench/v0/L1/25",),
    ),
    _activation(
        gelu, "GELU, exact form",
        "Apply GELU in its exact form, x times the normal distribution function of x, to every element of a float32"
        " matrix.",
        5, _sizes(4096, 10240), ("kernelbench/v0/L1/26",),
    ),
    _activation(
        gelu_tanh, "GELU, tanh form",
        "Apply the tanh approximation of GELU to every element of a float32 matrix.",
        8, (Size("large", {"rows": 8192, "cols": 8192}), Size("kb_v0", {"rows": 2000, "cols": 2000})),
        ("kernelbench/v0/L1/88", "kernelbench/v0.1/L1/88"),
    ),
    _activation(
        softplus, "Softplus",
        "Apply log(1 + exp(x)) to every element of a float32 matrix; above 20 the result is x itself.",
        4, _sizes(5120, 8192), ("kernelbench/v0/L1/29",),
    ),
    _activation(
        softsign, "Softsign",
        "Divide every element of a float32 matrix by one plus its absolute value.",
        3, _sizes(3072, 12289), ("kernelbench/v0/L1/30",),
    ),
    _activation(
        elu, "ELU",
        "Apply the exponential linear unit with alpha 1 to every element of a float32 matrix: x where positive, else"
        " exp(x) - 1.",
        3, _sizes(16384, 2304), ("kernelbench/v0/L1/31",),
    ),
)  # fmt: skip
