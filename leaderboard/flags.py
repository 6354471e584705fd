"""Integrity flags: what a reader should know before trusting an entry. Flags are shown and never acted on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.metrics.rps import rps
from kbench.benchmark.scoring.score import pair_forecasts
from kbench.benchmark.surrogates.table import ForecastTable
from kbench.benchmark.tasks.task import Questions
from kbench.schemas import Submission

NEAR_COPY = 1e-4
"""Mean absolute difference of probabilities below which two entries are one."""
BEATS_CEILING = 0.5
"""An RPS under this share of the re-measurement oracle's cannot come from forecasting."""
CERTAIN = 0.999
LABEL_ACCURACY = 0.98


def flags(
    submission: Submission,
    table: ForecastTable,
    questions: Questions,
    others: Mapping[str, Floats],
    ceiling: float | None,
) -> list[str]:
    """Everything noteworthy about an entry's forecasts.

    Args:
        submission: its metadata.
        table: its forecasts, aligned with the questions.
        questions: the questions with their labels.
        others: probabilities of the other entries by name, aligned with the same questions.
        ceiling: the RPS a re-measurement would score; None when unknown.
    """
    rows = pair_forecasts(questions, table)
    found = [*_copies(table.probabilities[0], others), *_missing(submission, table)]
    if not len(rows.bins):
        return found
    score = rps(rows.probabilities, rows.bins)
    if ceiling is not None and score < BEATS_CEILING * ceiling:
        found.append(f"scores an RPS of {score:.4f}, better than measuring again would ({ceiling:.4f})")
    certain = rows.probabilities.max(axis=1) > CERTAIN
    right = rows.probabilities.argmax(axis=1) + 1 == rows.bins
    if certain.mean() > 0.5 and right[certain].mean() > LABEL_ACCURACY:
        found.append(f"is certain on {certain.mean():.0%} of pairs and right on {right[certain].mean():.1%} of those")
    return found


def _copies(probabilities: Floats, others: Mapping[str, Floats]) -> Sequence[str]:
    found = []
    for name, other in sorted(others.items()):
        if other.shape == probabilities.shape and float(np.abs(other - probabilities).mean()) < NEAR_COPY:
            found.append(f"forecasts are nearly identical to those of {name}")
    return found


def _missing(submission: Submission, table: ForecastTable) -> Sequence[str]:
    found = []
    if table.repeats != submission.repeats:
        found.append(f"states {submission.repeats} repeats and holds {table.repeats}")
    share = float(table.failed.mean())
    if share > 0.01:
        found.append(f"gives no usable forecast for {share:.1%} of queries")
    return found
