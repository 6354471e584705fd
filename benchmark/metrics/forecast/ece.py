"""Expected calibration error: how far confidence and accuracy part, averaged over buckets of confidence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, by_chunks, check, row_max
from kbench.benchmark.metrics.forecast.accuracy import hits

BUCKETS = 10


def equal_width(confidences: Floats, buckets: int = BUCKETS) -> Ints:
    """Bucket of each confidence: index min(int(10c), 9)."""
    return np.minimum((confidences * buckets).astype(np.int64), buckets - 1)


def equal_mass(confidences: Floats, buckets: int = BUCKETS) -> Ints:
    """Bucket of each confidence when buckets hold equally many rows; tied confidences stay together."""
    if not len(confidences):
        return np.zeros(0, dtype=np.int64)
    places = (np.arange(1, buckets) * len(confidences)) // buckets
    bucket = np.zeros(len(confidences), dtype=np.uint8)
    for cut in np.partition(confidences, places)[places]:
        bucket += (confidences >= cut).view(np.uint8)
    return bucket.astype(np.int64)


def gap(bucket: Ints, confidences: Floats, right: Floats) -> float:
    """Σ over buckets of its share of rows × |mean confidence − accuracy|."""
    if not len(bucket):
        return float("nan")
    difference = np.bincount(bucket, weights=confidences - right)
    return float(np.abs(difference).sum() / len(bucket))


def sure_and_right(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Confidence and correctness of every row, from one check of the arguments."""
    values, numbers = check(probabilities, bins)
    return row_max(values), by_chunks(hits, values, numbers)


def ece(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally wide buckets of the predicted bin's probability."""
    confidences, right = sure_and_right(probabilities, bins)
    return gap(equal_width(confidences), confidences, right)


def ece_adaptive(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Calibration error over ten equally filled buckets: not blind where all confidences are alike."""
    confidences, right = sure_and_right(probabilities, bins)
    return gap(equal_mass(confidences), confidences, right)
