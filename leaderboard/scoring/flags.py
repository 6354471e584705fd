"""Integrity flags: what a reader should know before trusting an entry. Flags are shown and never acted on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.evaluate.folder import open_fields
from kbench.benchmark.metrics.metric import Ceiling, PairRows
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.scoring.score import asked_queries
from kbench.schemas import Score, Submission

CERTAIN = 0.999
LABEL_ACCURACY = 0.98


def flags(
    submission: Submission,
    table: ForecastTable,
    questions: Questions,
    scores: Sequence[Score],
) -> list[str]:
    """Everything noteworthy about an entry's forecasts, other entries aside.

    Args:
        submission: its metadata.
        table: its forecasts, aligned with the questions.
        questions: the questions with their labels.
        scores: its figures, with the noise ceiling where there is one.
    """
    failed = table.failed[:, asked_queries(submission, questions)]
    left = open_fields(submission)
    return [
        *([f"its author has not stated {', '.join(left)}"] if left else []),
        *_missing(submission, table.repeats, failed),
        *_beyond_ceiling(scores),
        *_certain(pair_rows(questions, table)),
    ]


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
