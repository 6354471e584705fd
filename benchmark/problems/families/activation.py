"""Activations: one output element per input element."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kbench.benchmark.problems.adversarial.cases import huge, large, wide, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import normal, tensors
from kbench.benchmark.problems.lazy_torch import F, Tensor, torch

FP32_ELEMENTWISE = Tolerance(1e-6, 1e-5, "float32, no reduction: a few units in the last place of the result")

CASES = (large("x", factor=50.0, atol_scale=1.0), huge("x"), wide("x", decades=4.0), zero_rows("x"))


# Twice the unit deviation reaches both tails, where activations bend and saturate.
_matrix = tensors("x[rows,cols]", x=normal(2.0))


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


problem = functools.partial(
    ProblemDefinition, family="activation", inputs=_matrix, outputs=tensors("y[rows,cols]"),
    tiny=Size("tiny", {"rows": 7, "cols": 33}), tolerance=FP32_ELEMENTWISE, cases=CASES,
)  # fmt: skip


def activation(
    reference: Callable[[Tensor], Tensor], title: str, text: str, *, operations: int, large: tuple[int, int], alias: int
) -> ProblemDefinition:
    """One of KernelBench's: so many operations an element, at a large size and at KernelBench's."""
    sides = {"large": large, "kb_v0": (16, 16384)}
    return problem(
        id=reference.__name__, title=title, reference=reference, description=text,
        flops=lambda p: operations * p["rows"] * p["cols"],
        sizes=tuple(Size(name, {"rows": rows, "cols": cols}) for name, (rows, cols) in sides.items()),
        aliases=(f"kernelbench/v0/L1/{alias}",),
    )  # fmt: skip


PROBLEMS: tuple[ProblemDefinition, ...] = (
    activation(
        relu, "ReLU", "Replace every negative element of a float32 matrix by zero.",
        operations=1, large=(4096, 8192), alias=19,
    ),
    activation(
        sigmoid, "Sigmoid", "Apply the logistic function 1 / (1 + exp(-x)) to every element of a float32 matrix.",
        operations=4, large=(6144, 6144), alias=21,
    ),
    activation(
        tanh, "Tanh", "Apply the hyperbolic tangent to every element of a float32 matrix.",
        operations=5, large=(8192, 5000), alias=22,
    ),
    activation(
        swish, "Swish (SiLU)", "Multiply every element of a float32 matrix by its own sigmoid.",
        operations=5, large=(4096, 11008), alias=25,
    ),
    activation(
        gelu, "GELU, exact form",
        "Apply GELU in its exact form, x times the normal distribution function of x, to every element of a float32 "
        "matrix.",
        operations=5, large=(4096, 10240), alias=26,
    ),
    problem(
        id="gelu_tanh", title="GELU, tanh form", reference=gelu_tanh,
        description="Apply the tanh approximation of GELU to every element of a float32 matrix.",
        flops=lambda p: 8 * p["rows"] * p["cols"],
        sizes=(Size("large", {"rows": 8192, "cols": 8192}), Size("kb_v0", {"rows": 2000, "cols": 2000})),
        aliases=("kernelbench/v0/L1/88", "kernelbench/v0.1/L1/88"),
    ),
    activation(
        softplus, "Softplus",
        "Apply log(1 + exp(x)) to every element of a float32 matrix; above 20 the result is x itself.",
        operations=4, large=(5120, 8192), alias=29,
    ),
    activation(
        softsign, "Softsign", "Divide every element of a float32 matrix by one plus its absolute value.",
        operations=3, large=(3072, 12289), alias=30,
    ),
    activation(
        elu, "ELU",
        "Apply the exponential linear unit with alpha 1 to every element of a float32 matrix: x where positive, else "
        "exp(x) - 1.",
        operations=3, large=(16384, 2304), alias=31,
    ),
)  # fmt: skip
