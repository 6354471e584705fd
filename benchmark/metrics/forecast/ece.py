"""Expected calibration error: the gap between confidence and accuracy, averaged over equally wide buckets."""

from __future__ import annotations

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
    hits = correct(probabilities, bins)
    confidences = as_probabilities(probabilities).max(axis=1, initial=0.0)
    return gap(equal_width(confidences), confidences, hits)


def _figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    confidences = rows.probabilities.max(axis=1)
    return gap_figure(bootstrap, equal_width(confidences), confidences, correct(rows.probabilities, rows.bins))


ECE = Metric(
    name="ece",
    track=FORECAST,
    label="ECE",
    meaning="Gap between stated confidence and accuracy, averaged over ten equally wide buckets of confidence.",
    better=Better.LOW,
    figure=_figure,
    shown=Shown.BOARD,
    sliced=True,
)
