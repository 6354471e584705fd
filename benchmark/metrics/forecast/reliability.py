"""Reliability curve: accuracy against confidence, bucket by bucket."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast.ece import BUCKETS, equal_width, sure_and_right


@dataclasses.dataclass(frozen=True, slots=True)
class ReliabilityCurve:
    """Buckets that hold rows, from the least confident."""

    confidence: Floats
    """Mean confidence in the bucket."""
    accuracy: Floats
    """Share of right answers in the bucket."""
    rows: Ints
    """Rows in the bucket."""


def reliability_curve(probabilities: npt.ArrayLike, bins: npt.ArrayLike, buckets: int = BUCKETS) -> ReliabilityCurve:
    """Mean confidence and accuracy of every equally wide bucket that holds a row."""
    confidences, hits = sure_and_right(probabilities, bins)
    bucket = equal_width(confidences, buckets)
    rows = np.bincount(bucket, minlength=buckets)
    kept = rows > 0
    count = rows[kept]
    return ReliabilityCurve(
        np.bincount(bucket, weights=confidences, minlength=buckets)[kept] / count,
        np.bincount(bucket, weights=hits, minlength=buckets)[kept] / count,
        count.astype(np.int64),
    )
