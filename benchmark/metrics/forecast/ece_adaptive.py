"""Adaptive calibration error: like ECE, over buckets that hold equally many rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.forecast.ece import BUCKETS, gap, gap_figure
from kbench.benchmark.metrics.metric import Better, Metric
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.tracks import FORECAST


def equal_mass(confidences: Floats) -> Ints:
    """Bucket of each confidence when buckets hold equally many rows; tied confidences stay together."""
    if not len(confidences):
        return np.zeros(0, dtype=np.int64)
    cuts = np.sort(confidences)[(np.arange(1, BUCKETS) * len(confidences)) // BUCKETS]
    return np.searchsorted(cuts, confidences, side="right").astype(np.int64)


def ece_adaptive(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally filled buckets: not blind where all confidences are alike."""
    hits = correct(probabilities, bins)
    confidences = as_probabilities(probabilities).max(axis=1, initial=0.0)
    return gap(equal_mass(confidences), confidences, hits)


def _figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    confidences = rows.probabilities.max(axis=1)
    return gap_figure(bootstrap, equal_mass(confidences), confidences, correct(rows.probabilities, rows.bins))


ECE_ADAPTIVE = Metric(
    name="ece_adaptive",
    track=FORECAST,
    label="Adaptive ECE",
    meaning="Gap between stated confidence and accuracy, averaged over ten equally filled buckets of confidence.",
    better=Better.LOW,
    figure=_figure,
)
