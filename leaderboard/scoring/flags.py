"""Integrity flags: what a reader should know before trusting an entry. Flags are shown and never acted on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.metric import Ceiling
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.scoring.score import asked_queries
from kbench.schemas import Score, Submission

NEAR_COPY = 1e-4
"""Mean absolute difference of probabilities below which two entries are one."""
ENOUGH_SHARED = 0.5
"""Two entries are compared when they share this much of what the one with fewer forecasts answers."""
CERTAIN = 0.999
LABEL_ACCURACY = 0.98


def flags(
    submission: Submission,
    table: ForecastTable,
    questions: Questions,
    others: Mapping[str, ForecastTable],
    scores: Sequence[Score],
) -> list[str]:
    """Everything noteworthy about an entry's forecasts.

    Args:
        submission: its metadata.
        table: its forecasts, aligned with the questions.
        questions: the questions with their labels.
        others: forecasts of the other entries by name, aligned with the same questions.
        scores: its figures, with the noise ceiling where there is one.
    """
    failed = table.failed[:, asked_queries(submission, questions)]
    return [
        *_copies(table, others),
        *_missing(submission, table.repeats, failed),
        *_beyond_ceiling(scores),
        *_certain(pair_rows(questions, table)),
    ]


def _copies(table: ForecastTable, others: Mapping[str, ForecastTable]) -> Iterator[str]:
    """Entries with the same forecasts where both gave one: the stand-in for a missing answer is the same for all."""
    for name, other in sorted(others.items()):
        both = ~table.failed[0] & ~other.failed[0]
        fewer = min((~table.failed[0]).sum(), (~other.failed[0]).sum())
        if not both.any() or both.sum() < ENOUGH_SHARED * fewer:
            continue
        if float(np.abs(other.probabilities[0, both] - table.probabilities[0, both]).mean()) < NEAR_COPY:
            yield f"forecasts are nearly identical to those of {name}"


def _beyond_ceiling(scores: Sequence[Score]) -> Iterator[str]:
    """Figures that are better than a second measurement of the same kernels would score."""
    over_all = {(score.track, score.metric): score for score in scores if score.slice == "all"}
    for metric in METRICS:
        score = over_all.get((metric.track.name, metric.name))
        if metric.ceiling is not Ceiling.BINDING or score is None or score.value is None or score.ceiling is None:
            continue
        if metric.sign * score.value > metric.sign * score.ceiling:
            yield f"{metric.label} {score.value:.4f} is better than a second measurement ({score.ceiling:.4f})"


def _missing(submission: Submission, repeats: int, failed: npt.NDArray[np.bool_]) -> Iterator[str]:
    if repeats != submission.repeats:
        yield f"states {submission.repeats} repeats and holds {repeats}"
    share = float(failed.mean())
    if share > 0.01:
        yield f"gives no usable forecast for {share:.1%} of queries"


def _certain(rows: PairRows) -> Iterator[str]:
    """Certainty that only someone who knows the answers has."""
    certain = rows.probabilities.max(axis=1) > CERTAIN
    right = rows.probabilities.argmax(axis=1) + 1 == rows.bins
    if len(certain) and certain.mean() > 0.5 and right[certain].mean() > LABEL_ACCURACY:
        yield f"is certain on {certain.mean():.0%} of pairs and correct on {right[certain].mean():.1%} of those"
