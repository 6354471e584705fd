"""Calibration: the gap between confidence and accuracy over buckets of confidence, and the curve it averages."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.tracks import FORECAST

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


def ece(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally wide buckets of the predicted bin's probability."""
    confidences, hits = _confidences(probabilities, bins)
    return gap(equal_width(confidences), confidences, hits)


def ece_adaptive(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally filled buckets: not blind where all confidences are alike."""
    confidences, hits = _confidences(probabilities, bins)
    return gap(equal_mass(confidences), confidences, hits)


def _confidences(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> tuple[Floats, Floats]:
    """The probability of each row's mode, and how far the mode is correct."""
    hits = correct(probabilities, bins)
    return as_probabilities(probabilities).max(axis=1, initial=0.0), hits


def _gap_over(buckets: Callable[[Floats], Ints]) -> Callable[[Bootstrap, PairRows], Figure]:
    def figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
        confidences, hits = _confidences(rows.probabilities, rows.bins)
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
    confidences, hits = _confidences(rows.probabilities, rows.bins)
    return bootstrap.mean_of_clusters(np.abs(bootstrap.cluster_means(confidences - hits)))


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
    confidences, hits = _confidences(probabilities, bins)
    bucket = equal_width(confidences, buckets)
    rows = np.bincount(bucket, minlength=buckets)
    kept = rows > 0
    count = rows[kept]
    return ReliabilityCurve(
        np.bincount(bucket, weights=confidences, minlength=buckets)[kept] / count,
        np.bincount(bucket, weights=hits, minlength=buckets)[kept] / count,
        count.astype(np.int64),
    )
