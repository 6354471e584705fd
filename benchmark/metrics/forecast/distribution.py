"""Facts of a forecast distribution that need no answer: mode, entropy, margin, expected bin, point speedup."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities, by_chunks, row_max, row_sum
from kbench.schemas import bins

LEAST = np.finfo(np.float64).tiny


def predicted_bin(probabilities: npt.ArrayLike) -> Ints:
    """The most probable bin; the lowest of tied ones."""
    result: Ints = as_probabilities(probabilities).argmax(axis=1) + 1
    return result


def confidence(probabilities: npt.ArrayLike) -> Floats:
    """Probability of the most probable bin."""
    return row_max(as_probabilities(probabilities))


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Entropy in nats."""
    return by_chunks(_entropies, as_probabilities(probabilities), np.zeros(0, dtype=np.int64))


def _entropies(values: Floats, _: Ints) -> Floats:
    # Zero times the logarithm of the least number there is, is zero: no row needs a case of its own.
    terms = np.maximum(values, LEAST)
    np.log(terms, out=terms)
    terms *= values
    return -row_sum(terms)


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
