"""Reliability curve: accuracy against confidence, bucket by bucket."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities
from kbench.benchmark.metrics.forecast.accuracy import correct
from kbench.benchmark.metrics.forecast.ece import BUCKETS, equal_width


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
    hits = correct(probabilities, bins)
    confidences = as_probabilities(probabilities).max(axis=1, initial=0.0)
    bucket = equal_width(confidences, buckets)
    rows = np.bincount(bucket, minlength=buckets)
    kept = rows > 0
    count = rows[kept]
    return ReliabilityCurve(
        np.bincount(bucket, weights=confidences, minlength=buckets)[kept] / count,
        np.bincount(bucket, weights=hits, minlength=buckets)[kept] / count,
        count.astype(np.int64),
    )
