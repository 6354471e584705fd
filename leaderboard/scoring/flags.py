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
SUMS = 16
"""Sums of forecasts by which entries that cannot be copies of each other are told apart."""
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
        others: forecasts of other entries that may be the same, by name, aligned with the same questions.
        scores: its figures, with the noise ceiling where there is one.
    """
    failed = table.failed[:, asked_queries(submission, questions)]
    return [
        *copies(table, others),
        *_missing(submission, table.repeats, failed),
        *_beyond_ceiling(scores),
        *_certain(pair_rows(questions, table)),
    ]


class Neighbours:
    """Which entries may be copies of each other, without a comparison of each with all the others.

    The mean of all probabilities, each with a sign drawn once, differs between two entries by no more than the
    probabilities do in the mean. Queries that one of them does not answer add a quarter each at most: two
    distributions over eight bins differ by 2/8 in the mean.
    """

    def __init__(self, tables: Sequence[ForecastTable]) -> None:
        """Take the sums of entries that answer the same questions."""
        first = [table.probabilities[0].ravel() for table in tables]
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(first[0]) if first else 0, SUMS))
        self._sums = np.array([one @ signs / max(len(one), 1) for one in first])
        self._open = np.array([table.failed[0].mean() for table in tables])

    def of(self, at: int) -> list[int]:
        """The places of the entries that may be copies of the one at this place."""
        room = NEAR_COPY + (self._open + self._open[at]) / 4
        near = (np.abs(self._sums - self._sums[at]) <= room[:, None]).all(axis=1)
        return [place for place in np.flatnonzero(near).tolist() if place != at]


def copies(table: ForecastTable, others: Mapping[str, ForecastTable]) -> Iterator[str]:
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
