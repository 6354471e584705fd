"""A problem of your own: kbench problems check examples/my_problem.py"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial.cases import large, negative
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import TensorSpec
from kbench.benchmark.problems.lazy_torch import torch

if TYPE_CHECKING:
    from torch import Tensor


def gated_residual(x: Tensor, update: Tensor, gate: Tensor) -> Tensor:
    return x + torch.sigmoid(gate)[:, None] * update


PROBLEM = ProblemDefinition(
    id="gated_residual",
    title="Gated residual",
    family="fused_elementwise",
    description="Add an update to a float32 matrix, scaled in each row by the sigmoid of that row's gate.",
    reference=gated_residual,
    inputs=lambda p: (
        TensorSpec("x", (p["rows"], p["cols"])),
        TensorSpec("update", (p["rows"], p["cols"])),
        TensorSpec("gate", (p["rows"],)),
    ),
    outputs=lambda p: (TensorSpec("y", (p["rows"], p["cols"])),),
    flops=lambda p: 2 * p["rows"] * p["cols"] + 4 * p["rows"],
    sizes=(Size("large", {"rows": 8192, "cols": 4096}), Size("small", {"rows": 512, "cols": 1000})),
    tiny=Size("tiny", {"rows": 7, "cols": 33}),
    tolerance=Tolerance(1e-5, 1e-5, "one float32 multiply-add of unit normals, and a sigmoid"),
    cases=(large("x"), negative("gate")),
)
