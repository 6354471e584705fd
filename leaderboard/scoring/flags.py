"""Integrity flags: what a reader should know before trusting an entry. Flags are shown and never acted on.

Entries with nearly the same forecasts are found without holding all forecasts or comparing all pairs.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.evaluate.folder import open_fields
from kbench.benchmark.metrics.arrays import Booleans, Floats
from kbench.benchmark.metrics.metric import Ceiling
from kbench.benchmark.metrics.registry import METRICS
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.leaderboard.scoring.score import asked_queries
from kbench.schemas import Score, Submission

CERTAIN = 0.999
LABEL_ACCURACY = 0.98
NEAR_COPY = 1e-4
"""Mean absolute difference of probabilities below which two entries are one."""
ENOUGH_SHARED = 0.5
"""Two entries are compared when they share this much of what the one with fewer forecasts answers."""
SUMS = 16
"""Sums of forecasts by which entries that cannot be copies of each other are told apart."""
MOST_NAMED = 10
"""Copies that are named of one entry: a board of nothing but copies must not list all of them for each."""
FULL = np.iinfo(np.uint16).max


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
    raised = []
    if left := open_fields(submission):
        raised.append(f"its author has not stated {', '.join(left)}")
    if table.repeats != submission.repeats:
        raised.append(f"states {submission.repeats} repeats and holds {table.repeats}")
    missing = float(table.failed[:, asked_queries(submission, questions)].mean())
    if missing > 0.01:
        raised.append(f"gives no usable forecast for {missing:.1%} of queries")
    # Figures that are better than a second measurement of the same kernels would score.
    over_all = {(score.track, score.metric): score for score in scores if score.slice == "all"}
    for metric in METRICS:
        score = over_all.get((metric.track.name, metric.name))
        if metric.ceiling is not Ceiling.BINDING or score is None or score.value is None or score.ceiling is None:
            continue
        if metric.sign * score.value > metric.sign * score.ceiling:
            raised.append(f"{metric.label} {score.value:.4f} is better than a second measurement ({score.ceiling:.4f})")
    # Certainty that only someone who knows the answers has.
    rows = pair_rows(questions, table)
    certain = rows.probabilities.max(axis=1) > CERTAIN
    right = rows.probabilities.argmax(axis=1) + 1 == rows.bins
    if len(certain) and certain.mean() > 0.5 and right[certain].mean() > LABEL_ACCURACY:
        correct = f"correct on {right[certain].mean():.1%} of those"
        raised.append(f"is certain on {certain.mean():.0%} of pairs and {correct}")
    return raised


@dataclasses.dataclass(frozen=True, slots=True)
class PackedForecasts:
    """What is kept of an entry's forecasts while others are read: two bytes for each probability."""

    entry_id: str
    name: str
    """Name and version."""
    packed: npt.NDArray[np.uint16]
    """Of every query the mean over repeats."""
    failed: Booleans
    """Queries that no repeat answers."""

    @classmethod
    def of(cls, entry_id: str, name: str, table: ForecastTable) -> PackedForecasts:
        """Pack an entry's forecasts."""
        packed = np.rint(table.probabilities.mean(axis=0) * FULL).astype(np.uint16)
        return cls(entry_id, name, packed, np.all(table.failed, axis=0))

    @property
    def probabilities(self) -> Floats:
        """[queries, 8]."""
        return self.packed / np.float64(FULL)


class Copies:
    """Which entries are copies of each other.

    The mean of all probabilities, each with a sign drawn once, differs between two entries by no more than the
    probabilities do in the mean. Queries that one of them does not answer add a quarter each at most: two
    distributions over eight bins differ by 2/8 in the mean. Only entries whose sums are that near are compared.
    """

    def __init__(self, entries: Sequence[PackedForecasts]) -> None:
        """Take the sums of entries that answer the same questions."""
        self._entries = entries
        size = entries[0].packed.size if entries else 0
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (size, SUMS))
        self._sums = np.array([one.probabilities.ravel() @ signs / max(size, 1) for one in entries])
        self._open = np.array([one.failed.mean() for one in entries])

    def near(self, at: int) -> list[int]:
        """The places of the entries that may be copies of the one at this place."""
        margin = NEAR_COPY + (self._open + self._open[at]) / 4
        near = (np.abs(self._sums - self._sums[at]) <= margin[:, None]).all(axis=1)
        return [place for place in np.flatnonzero(near).tolist() if place != at]

    def flags(self, at: int) -> list[str]:
        """One line for each copy of the entry at this place, by name."""
        alike = (place for place in self.near(at) if same_forecasts(self._entries[at], self._entries[place]))
        names = [self._entries[place].name for place in itertools.islice(alike, MOST_NAMED)]
        return sorted(f"forecasts are nearly identical to those of {name}" for name in names)


def same_forecasts(one: PackedForecasts, other: PackedForecasts) -> bool:
    """Whether forecasts agree where both gave one: the stand-in for a missing answer is the same for all."""
    both = ~one.failed & ~other.failed
    fewer = min((~one.failed).sum(), (~other.failed).sum())
    if not both.any() or both.sum() < ENOUGH_SHARED * fewer:
        return False
    return float(np.abs(one.probabilities[both] - other.probabilities[both]).mean()) < NEAR_COPY
