"""Facts of a forecast distribution that need no answer: mode, entropy, margin, expected bin, point speedup."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities, row_max
from kbench.schemas import bins


def predicted_bin(probabilities: npt.ArrayLike) -> Ints:
    """The most probable bin; the lowest of tied ones."""
    result: Ints = as_probabilities(probabilities).argmax(axis=1) + 1
    return result


def confidence(probabilities: npt.ArrayLike) -> Floats:
    """Probability of the most probable bin."""
    return row_max(as_probabilities(probabilities))


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Entropy in nats."""
    values = as_probabilities(probabilities)
    logs = np.log(values, out=np.zeros_like(values), where=values > 0)
    result: Floats = -(values * logs).sum(axis=1)
    return result


def margin(probabilities: npt.ArrayLike) -> Floats:
    """Largest minus second-largest probability."""
    ordered = np.sort(as_probabilities(probabilities), axis=1)
    result: Floats = ordered[:, -1] - ordered[:, -2]
    return result


def expected_bin(probabilities: npt.ArrayLike) -> Floats:
    """Mean bin number."""
    return _weighted(as_probabilities(probabilities), np.asarray(bins.NUMBERS, dtype=np.float64))


def expected_log2_speedup(probabilities: npt.ArrayLike) -> Floats:
    """Mean log2 of the bins' representative speedups: a point forecast for surrogates that give none."""
    centers = np.log2([bins.center(number) for number in bins.NUMBERS])
    return _weighted(as_probabilities(probabilities), centers)


def _weighted(values: Floats, weights: Floats) -> Floats:
    """Weighted sum of every row, added from the first column on.

    A matrix product may add in another order in another row, and would tell equal forecasts apart.
    """
    total = np.zeros(len(values))
    for column, weight in zip(values.T, weights, strict=True):
        total += column * weight
    return total
