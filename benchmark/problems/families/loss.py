"""Losses: one number for a whole batch."""

from __future__ import annotations

import functools

from kbench.benchmark.problems.adversarial.cases import (
    InputCase,
    constant_rows,
    large,
    outliers,
    shifted,
    small,
    sorted_rows,
    zero_rows,
)
from kbench.benchmark.problems.adversarial.changes import some_rows
from kbench.benchmark.problems.definition import ProblemDefinition, Size, Tolerance
from kbench.benchmark.problems.inputs import Sized, TensorSpec, integers, tensors
from kbench.benchmark.problems.lazy_torch import F, Generator, Tensor, torch

LEAST_PEAKED = 1e-30
"""Below what kernels clamp probabilities at, and above subnormal numbers, which are not judged."""


def sharpen(generator: Generator, x: Tensor) -> Tensor:
    """Distributions with nearly all weight on one class."""
    return torch.softmax(6.0 * torch.log(x), dim=-1).clamp_(min=LEAST_PEAKED)


PEAKED = InputCase(
    "peaked",
    "Distributions with nearly all weight on one class find logarithms of a clamped probability.",
    dict.fromkeys(("predictions", "targets"), sharpen),
    unit=1,
)
UNIFORM_ROWS = InputCase(
    "uniform_rows",
    "Rows in which every class is as likely have no divergence and find sums that lose small terms.",
    dict.fromkeys(("predictions", "targets"), some_rows(lambda generator, x: torch.full_like(x, 1.0 / x.shape[-1]))),
    unit=1,
)

SCALAR_MEAN = Tolerance(1e-6, 2e-5, "float32 mean of positive terms in a tree: about 1e-6 relative, times twenty")
KB_V0 = Size("kb_v0", {"rows": 128, "cols": 4096})
LARGE = Size("large", {"rows": 4096, "cols": 8192})
TINY = Size("tiny", {"rows": 9, "cols": 37})


def scaled_normal(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Gaussian values whose deviation, between 0.6 and 1.6, is drawn too.

    A mean over millions of like-drawn values hardly varies: without this a remembered loss would pass for a new one.
    """
    scale = torch.rand((), generator=generator, device=device) + 0.6
    return torch.randn(spec.shape, generator=generator, device=device).mul_(scale)


def row_scaled_normal(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Gaussian values whose deviation, between 0.6 and 1.6, is drawn for each row."""
    scale = torch.rand((spec.shape[0], 1), generator=generator, device=device) + 0.6
    return torch.randn(spec.shape, generator=generator, device=device).mul_(scale)


def row_distributions(generator: Generator, spec: TensorSpec, device: str) -> Tensor:
    """Rows of positive numbers that sum to one, of a peakedness that is drawn too."""
    return torch.softmax(scaled_normal(generator, spec, device), dim=-1)


def cross_entropy_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits, targets)


def huber_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    return F.smooth_l1_loss(predictions, targets)


def kl_div_loss(predictions: Tensor, targets: Tensor) -> Tensor:
    return F.kl_div(torch.log(predictions), targets, reduction="batchmean")


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
    return F.triplet_margin_loss(anchor, positive, negative, margin=1.0)


problem = functools.partial(
    ProblemDefinition,
    family="loss",
    outputs=tensors("loss[]"),
    flops=lambda p: 5 * p["rows"] * p["cols"],
    sizes=(LARGE, KB_V0),
    tiny=TINY,
    tolerance=SCALAR_MEAN,
)

PROBLEMS: tuple[ProblemDefinition, ...] = (
    problem(
        id="cross_entropy_loss", title="Cross-entropy loss", reference=cross_entropy_loss,
        description="Mean over rows of the cross entropy between float32 logits and int64 class indices.",
        inputs=tensors(
            "logits[rows,cols]", "targets: int64[rows]", logits=scaled_normal,
            targets=Sized(lambda p: integers(0, p["cols"])),
        ),
        flops=lambda p: 4 * p["rows"] * p["cols"],
        sizes=(Size("kb_v0_1", {"rows": 32768, "cols": 4096}), Size("kb_v0", {"rows": 4096, "cols": 10})),
        aliases=("kernelbench/v0/L1/95", "kernelbench/v0.1/L1/95"),
        cases=(
            shifted("logits", by=100.0, rtol_scale=5.0), large("logits", factor=50.0, atol_scale=1.0),
            constant_rows("logits", rtol_scale=20.0), outliers("logits", factor=100.0, atol_scale=1.0),
        ),
    ),
    problem(
        id="huber_loss", title="Huber loss", reference=huber_loss,
        description="Mean over all elements of the Huber loss with threshold 1 between two float32 matrices: half the "
            "squared difference where it is below 1, else the absolute difference minus one half.",
        inputs=tensors("predictions targets[rows,cols]", predictions=scaled_normal, targets=scaled_normal),
        aliases=("kernelbench/v0/L1/96",),
        cases=(
            large("predictions", factor=1e4), small("predictions", "targets", factor=1e-3),
            zero_rows("predictions", "targets"), outliers("predictions", atol_scale=1.0),
        ),
    ),
    problem(
        id="kl_div_loss", title="Kullback-Leibler divergence", reference=kl_div_loss,
        description="Sum over all elements of target * (log(target) - log(prediction)), divided by the number of rows; "
            "both float32 matrices hold a distribution in each row.",
        inputs=tensors("predictions targets[rows,cols]", predictions=row_distributions, targets=row_distributions),
        tolerance=Tolerance(
            2e-6, 5e-5, "float32 sum of terms of both signs that partly cancel: about 5e-6 relative, times ten",
        ),
        aliases=("kernelbench/v0/L1/98",), cases=(PEAKED, UNIFORM_ROWS, sorted_rows("predictions", "targets")),
    ),
    problem(
        id="triplet_margin_loss", title="Triplet margin loss", reference=triplet_margin_loss,
        description="Mean over rows of max(0, d(anchor, positive) - d(anchor, negative) + 1) for three float32 "
            "matrices, where d is the Euclidean distance of two rows (1e-6 is added to each difference).",
        inputs=tensors(
            "anchor positive negative[rows,cols]", anchor=row_scaled_normal, positive=row_scaled_normal,
            negative=row_scaled_normal,
        ),
        flops=lambda p: 6 * p["rows"] * p["cols"],
        tolerance=Tolerance(2e-5, 2e-5, "differences of float32 distances of size 130: about 1e-7 of those"),
        aliases=("kernelbench/v0/L1/99",),
        cases=(
            large("anchor", "positive", "negative", factor=100.0, atol_scale=100.0),
            small("anchor", "positive", "negative", factor=1e-2, atol_scale=1.0),
            outliers("positive", factor=100.0, atol_scale=10.0), zero_rows("anchor", "positive"),
        ),
    ),
)  # fmt: skip
