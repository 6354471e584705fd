"""Activations: one output element per input element."""

from __future__ import annotations

import functools
from collections.abc import Callable

from kbench.benchmark.problems.adversarial.cases import huge, large, wide, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Params, normal, tensors
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


def per_element(operations: int) -> Callable[[Params], int]:
    """So many operations for every element."""
    return lambda p: operations * int(p["rows"]) * int(p["cols"])


def sizes(rows: int, cols: int) -> tuple[Size, ...]:
    """A large size, and KernelBench's."""
    return (Size("large", {"rows": rows, "cols": cols}), Size("kb_v0", {"rows": 16, "cols": 16384}))


problem = functools.partial(
    ProblemDefinition, family="activation", inputs=_matrix, outputs=tensors("y[rows,cols]"),
    tiny=Size("tiny", {"rows": 7, "cols": 33}), tolerance=FP32_ELEMENTWISE, cases=CASES,
)  # fmt: skip

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="relu", title="ReLU", reference=relu,
        description="Replace every negative element of a float32 matrix by zero.",
        flops=per_element(1),
        sizes=sizes(4096, 8192),
        aliases=("kernelbench/v0/L1/19",),
    ),
    problem(
        id="sigmoid", title="Sigmoid", reference=sigmoid,
        description="Apply the logistic function 1 / (1 + exp(-x)) to every element of a float32 matrix.",
        flops=per_element(4),
        sizes=sizes(6144, 6144),
        aliases=("kernelbench/v0/L1/21",),
    ),
    problem(
        id="tanh", title="Tanh", reference=tanh,
        description="Apply the hyperbolic tangent to every element of a float32 matrix.",
        flops=per_element(5),
        sizes=sizes(8192, 5000),
        aliases=("kernelbench/v0/L1/22",),
    ),
    problem(
        id="swish", title="Swish (SiLU)", reference=swish,
        description="Multiply every element of a float32 matrix by its own sigmoid.",
        flops=per_element(5),
        sizes=sizes(4096, 11008),
        aliases=("kernelbench/v0/L1/25",),
    ),
    problem(
        id="gelu", title="GELU, exact form", reference=gelu,
        description="Apply GELU in its exact form, x times the normal distribution function of x, to every element of "
            "a float32 matrix.",
        flops=per_element(5),
        sizes=sizes(4096, 10240),
        aliases=("kernelbench/v0/L1/26",),
    ),
    problem(
        id="gelu_tanh", title="GELU, tanh form", reference=gelu_tanh,
        description="Apply the tanh approximation of GELU to every element of a float32 matrix.",
        flops=per_element(8),
        sizes=(Size("large", {"rows": 8192, "cols": 8192}), Size("kb_v0", {"rows": 2000, "cols": 2000})),
        aliases=("kernelbench/v0/L1/88", "kernelbench/v0.1/L1/88"),
    ),
    problem(
        id="softplus", title="Softplus", reference=softplus,
        description="Apply log(1 + exp(x)) to every element of a float32 matrix; above 20 the result is x itself.",
        flops=per_element(4),
        sizes=sizes(5120, 8192),
        aliases=("kernelbench/v0/L1/29",),
    ),
    problem(
        id="softsign", title="Softsign", reference=softsign,
        description="Divide every element of a float32 matrix by one plus its absolute value.",
        flops=per_element(3),
        sizes=sizes(3072, 12289),
        aliases=("kernelbench/v0/L1/30",),
    ),
    problem(
        id="elu", title="ELU", reference=elu,
        description="Apply the exponential linear unit with alpha 1 to every element of a float32 matrix: x where "
            "positive, else exp(x) - 1.",
        flops=per_element(3),
        sizes=sizes(16384, 2304),
        aliases=("kernelbench/v0/L1/31",),
    ),
)  # fmt: skip
