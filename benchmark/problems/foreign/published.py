"""Published tasks that are other problems than the benchmark's of the same name: measured by id, listed nowhere.

Kernels published for them say nothing about our problem, and ours nothing about them. They exist so that such kernels
can be measured again at what they were written for; kbench.harness.kernel.adapters leads there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kbench.benchmark.problems.adversarial.cases import constant_rows, large, outliers, small, zero_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import tensors, with_numbers

if TYPE_CHECKING:
    from torch import Tensor


def fp8_quant_float32(x: Tensor, group: int) -> tuple[Tensor, Tensor]:
    tokens, hidden = x.shape
    groups = x.view(tokens, hidden // group, group)
    scales = groups.abs().amax(-1).clamp(min=1e-10) / 448.0
    scaled = (groups / scales.unsqueeze(-1)).clamp(-448.0, 448.0)
    return scaled.view(tokens, hidden), scales


PROBLEMS = (
    ProblemDefinition(
        family="gpu_mode",
        id="fp8_quant_float32", title="GPU MODE's fp8_quant: scaling to the range of float8, in float32",
        reference=fp8_quant_float32,
        description="Split every row of a float32 matrix into groups of `group` neighbours. A group's scale is its "
            "largest magnitude (at least 1e-10) divided by 448; each value divided by its group's scale and clamped to "
            "±448 is the first output, the scales are the second. Both are float32: nothing is rounded to float8.",
        inputs=with_numbers(tensors("x[tokens,hidden]"), group="group"),
        outputs=tensors("x_q[tokens,hidden]", "x_s[tokens,hidden/group]"),
        flops=lambda p: 2 * p["tokens"] * p["hidden"],
        # The benchmarks the published release took from the task, and a test of it: a kernel may know no other shape.
        sizes=(
            Size("t4096_h7168", {"tokens": 4096, "hidden": 7168, "group": 128}),
            Size("t256_h8192", {"tokens": 256, "hidden": 8192, "group": 128}),
            Size("t256_h4096", {"tokens": 256, "hidden": 4096, "group": 128}),
        ),
        tiny=Size("tiny", {"tokens": 16, "hidden": 1024, "group": 64}),
        tolerance=Tolerance(
            1e-6, 1e-3,
            "the task's published rtol 1e-3; its atol of 1e-3 would let scales, which are about 6e-3, be 15 % off",
        ),
        cases=(
            # Powers of two, so that quotients round as those of the drawn values do.
            zero_rows("x"), large("x", factor=2.0**20, atol_scale=1.0), small("x", factor=2.0**-20, atol_scale=1e-6),
            outliers("x", atol_scale=1.0), constant_rows("x"),
        ),
    ),
)  # fmt: skip
