"""Track forecast: how good is the forecast distribution? Scores of rows, and the metrics made of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Booleans, Floats, Ints, as_probabilities, check, given_to, mean
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, PairRows, Shown, mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import COUNT, NUMBERS


def rps_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Ranked probability score of every row: Σ over the seven inner edges of (P(below) − [truth below])², over 7."""
    values, numbers = check(probabilities, bins)
    below, total = np.zeros(len(values)), np.zeros(len(values))
    for number in NUMBERS[:-1]:
        below += values[:, number - 1]
        total += (below - (numbers <= number)) ** 2
    return total / (COUNT - 1)


def rps(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean ranked probability score; lower is better, and a certain miss by g bins costs g/7."""
    return mean(rps_rows(probabilities, bins))


RPS = Metric(
    name="rps", track=FORECAST, label="RPS",
    meaning="Squared distance between the cumulative forecast and the correct bin; a certain miss by g bins costs g/7.",
    figure=mean_over_pairs(rps_rows), better=Better.LOW, shown=Shown.TERMINAL, ceiling=Ceiling.BINDING, sliced=True,
)  # fmt: skip


def skill_over_problems(bootstrap: Bootstrap, rows: PairRows, kept: Booleans) -> Figure:
    """Skill of the rows kept over the prior of their own kinds, over problems."""
    losses = np.where(kept, rows.column(rps_rows), np.nan)
    prior = np.where(kept, rows.column(rps_rows, "kind_prior"), np.nan)
    return bootstrap.skill_of_clusters(losses, prior, rows.problem_counts(bootstrap, kept))


SKILL = Metric(
    name="skill", track=FORECAST, label="Skill",
    meaning="Share of the RPS of each kind's own training prior that the forecast removes, kernel against kernel, "
    "averaged over problems: 0 is no better, 1 is perfect.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, ~rows.level), better=Better.HIGH,
    bounds=(None, 1.0), headline=True, shown=Shown.BOARD, sliced=True,
)  # fmt: skip
EDIT_SKILL = Metric(
    name="edit_skill", track=FORECAST, label="Skill on edits",
    meaning="The same skill on kernels against the ones they were made from.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, rows.edit), better=Better.HIGH,
    bounds=(None, 1.0), shown=Shown.TERMINAL,
)  # fmt: skip
PAIR_SKILL = Metric(
    name="pair_skill", track=FORECAST, label="Skill on unrelated pairs",
    meaning="The same skill on kernels of which neither was made from the other.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, ~rows.level & ~rows.edit), better=Better.HIGH,
    bounds=(None, 1.0), shown=Shown.TERMINAL,
)  # fmt: skip
WORKLOAD_SKILL = Metric(
    name="workload_skill", track=FORECAST, label="Skill on one workload",
    meaning="The same skill on questions about one workload, in problems whose workloads disagree.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, rows.one_workload), better=Better.HIGH,
    bounds=(None, 1.0), shown=Shown.TERMINAL,
)  # fmt: skip
LEVEL_SKILL = Metric(
    name="level_skill", track=FORECAST, label="Level skill",
    meaning="The same skill against the PyTorch reference: mostly how well the problem's level is known.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, rows.level), better=Better.HIGH,
    bounds=(None, 1.0), shown=Shown.BOARD, sliced=True,
)  # fmt: skip


def modes(values: Floats) -> Booleans:
    """Which bins of each row are its most probable ones."""
    return values == values.max(axis=1, keepdims=True, initial=0.0)


def correct(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is the correct bin when tied modes are drawn among at random.

    Sharing ties keeps the uniform forecast at 1/8 whatever order the bins are stored in.
    """
    values, numbers = check(probabilities, bins)
    tied = modes(values)
    return tied[np.arange(len(values)), numbers - 1] / tied.sum(axis=1)


def accuracy(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is correct."""
    return mean(correct(probabilities, bins))


ACCURACY = Metric(
    name="accuracy", track=FORECAST, label="Accuracy",
    meaning="Share of pairs whose most probable bin is the correct one.",
    figure=mean_over_pairs(correct), better=Better.HIGH, shown=Shown.BOARD, ceiling=Ceiling.BINDING, sliced=True,
)  # fmt: skip


def near(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is at most one bin off, tied modes drawn among at random."""
    values, numbers = check(probabilities, bins)
    tied = modes(values)
    close = sum(tied[:, number - 1] & (np.abs(numbers - number) <= 1) for number in NUMBERS)
    return close / tied.sum(axis=1)


WITHIN_ONE = Metric(
    name="within_one", track=FORECAST, label="Within one bin",
    meaning="Share of pairs whose most probable bin is at most one bin off.",
    figure=mean_over_pairs(near), better=Better.HIGH, shown=Shown.BOARD, sliced=True,
)  # fmt: skip


SIGN_ACCURACY = Metric(
    name="sign_accuracy", track=FORECAST, label="Sign accuracy",
    meaning="Share of pairs for which 'faster or slower than the anchor' is answered correctly.",
    figure=lambda bootstrap, rows: bootstrap.mean(1.0 - rows.sign_loss), better=Better.HIGH, shown=Shown.TERMINAL,
)  # fmt: skip


FLOOR = 1e-12
"""Least probability counted, so that one certain miss cannot make the mean infinite."""


def log_score_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Log score of every row, in nats."""
    return -np.log(np.maximum(given_to(*check(probabilities, bins)), FLOOR))


def log_score(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean log score; lower is better."""
    return mean(log_score_rows(probabilities, bins))


LOG_SCORE = Metric(
    name="log_score", track=FORECAST, label="Log score",
    meaning="Negative logarithm of the probability given to the correct bin, in nats.",
    figure=mean_over_pairs(log_score_rows), better=Better.LOW, bounds=(0.0, float(-np.log(FLOOR))), shown=Shown.BOARD,
)  # fmt: skip


def brier_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Half-Brier of every row."""
    values, numbers = check(probabilities, bins)
    total = np.zeros(len(values))
    for number in NUMBERS:
        total += (values[:, number - 1] - (numbers == number)) ** 2
    return total / 2


BRIER = Metric(
    name="brier", track=FORECAST, label="Brier",
    meaning="Half the squared distance between the forecast distribution and the correct bin.",
    figure=mean_over_pairs(brier_rows), better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip


BUCKETS = 10


def equal_width(confidences: Floats, buckets: int = BUCKETS) -> Ints:
    """Bucket of each confidence: index min(int(10c), 9)."""
    return np.minimum((confidences * buckets).astype(np.int64), buckets - 1)


def equal_mass(confidences: Floats) -> Ints:
    """Bucket of each confidence when buckets hold equally many rows; tied confidences stay together."""
    if not len(confidences):
        return np.zeros(0, dtype=np.int64)
    cuts = np.sort(confidences)[(np.arange(1, BUCKETS) * len(confidences)) // BUCKETS]
    return np.searchsorted(cuts, confidences, side="right").astype(np.int64)


def gap(bucket: Ints, confidences: Floats, hits: Floats) -> float:
    """Σ over buckets of its share of rows × |mean confidence − accuracy|."""
    if not len(bucket):
        return float("nan")
    difference = np.bincount(bucket, weights=confidences - hits)
    return float(np.abs(difference).sum() / len(bucket))


def gap_figure(bootstrap: Bootstrap, bucket: Ints, confidences: Floats, hits: Floats) -> Figure:
    """The gap with its draws; buckets keep their cuts over resamples."""
    gaps = np.abs(bootstrap.totals(confidences - hits, bucket, BUCKETS)).sum(axis=1)
    figure = Figure.of(gaps / bootstrap.totals(np.ones(len(hits)))[:, 0])
    # Noise in a bucket never cancels, so resamples are too high on average; they are moved back by that much.
    bias = figure.draws.mean() - figure.value if len(figure.draws) else 0.0
    return Figure(figure.value, np.maximum(figure.draws - bias, 0.0))


def highest(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """The probability of each row's mode, whichever bin is correct."""
    return as_probabilities(probabilities).max(axis=1, initial=0.0)


def ece(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally wide buckets of the predicted bin's probability."""
    confidences, hits = highest(probabilities, bins), correct(probabilities, bins)
    return gap(equal_width(confidences), confidences, hits)


def ece_adaptive(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally filled buckets: not blind where all confidences are alike."""
    confidences, hits = highest(probabilities, bins), correct(probabilities, bins)
    return gap(equal_mass(confidences), confidences, hits)


def _gap_over(buckets: Callable[[Floats], Ints]) -> Callable[[Bootstrap, PairRows], Figure]:
    def figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
        confidences, hits = rows.column(highest), rows.column(correct)
        return gap_figure(bootstrap, buckets(confidences), confidences, hits)

    return figure


ECE = Metric(
    name="ece", track=FORECAST, label="ECE",
    meaning="Gap between stated confidence and accuracy, averaged over ten equally wide buckets of confidence.",
    figure=_gap_over(equal_width), better=Better.LOW, shown=Shown.BOARD, sliced=True,
)  # fmt: skip
ECE_ADAPTIVE = Metric(
    name="ece_adaptive", track=FORECAST, label="Adaptive ECE",
    meaning="Gap between stated confidence and accuracy, averaged over ten equally filled buckets of confidence.",
    figure=_gap_over(equal_mass), better=Better.LOW,
)  # fmt: skip


def _gap_per_problem(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    return bootstrap.mean_of_clusters(np.abs(bootstrap.cluster_means(rows.column(highest) - rows.column(correct))))


ECE_PER_PROBLEM = Metric(
    name="ece_per_problem", track=FORECAST, label="ECE per problem",
    meaning="Gap between mean confidence and accuracy within a problem, averaged over problems: what pooling hides.",
    figure=_gap_per_problem, better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """Buckets that hold rows, from the least confident."""

    confidence: Floats
    """Mean confidence in the bucket."""
    accuracy: Floats
    """Share of correct answers in the bucket."""
    rows: Ints
    """Rows in the bucket."""


def reliability_curve(probabilities: npt.ArrayLike, bins: npt.ArrayLike, buckets: int = BUCKETS) -> ReliabilityCurve:
    """Mean confidence and accuracy of every equally wide bucket that holds a row."""
    confidences, hits = highest(probabilities, bins), correct(probabilities, bins)
    bucket = equal_width(confidences, buckets)
    rows = np.bincount(bucket, minlength=buckets)
    kept = rows > 0
    count = rows[kept]
    return ReliabilityCurve(
        np.bincount(bucket, weights=confidences, minlength=buckets)[kept] / count,
        np.bincount(bucket, weights=hits, minlength=buckets)[kept] / count,
        count.astype(np.int64),
    )


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Entropy of every row in nats; an impossible bin adds nothing."""
    values = as_probabilities(probabilities)
    total = np.zeros(len(values))
    for shares in values.T:
        total -= shares * np.log(np.where(shares > 0, shares, 1.0))
    return total


def sharpness_rows(probabilities: npt.ArrayLike) -> Floats:
    """Sharpness of every row: 0 for the uniform forecast, 1 for certainty."""
    return 1.0 - entropy(probabilities) / math.log(COUNT)


SHARPNESS = Metric(
    name="sharpness", track=FORECAST, label="Sharpness",
    meaning="How concentrated the forecasts are, answers aside: 0 is uniform, 1 is certain.",
    figure=lambda bootstrap, rows: bootstrap.mean(sharpness_rows(rows.probabilities)), better=Better.HIGH,
)  # fmt: skip

METRICS: tuple[Metric, ...] = (
    SKILL, EDIT_SKILL, PAIR_SKILL, WORKLOAD_SKILL, LEVEL_SKILL, RPS, ACCURACY, WITHIN_ONE, SIGN_ACCURACY, LOG_SCORE,
    BRIER, ECE, ECE_PER_PROBLEM, ECE_ADAPTIVE, SHARPNESS,
)  # fmt: skip
"""In the order of every table, the headline first."""
