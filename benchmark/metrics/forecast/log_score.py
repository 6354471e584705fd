"""Log score: −ln of the probability given to what happened."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors, check, given_to

FLOOR = 1e-12
"""Least probability counted, so that one certain miss cannot make the mean infinite."""


def log_score_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Log score of every row, in nats."""
    result: Floats = -np.log(_floored(probabilities, bins))
    return result


def _floored(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    given = given_to(*check(probabilities, bins))
    return np.maximum(given, FLOOR, out=given)


def log_score(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean log score; lower is better.

    A logarithm costs more than all else together, so sixteen rows share one, of their product: at least 1e-192.
    """
    given = _floored(probabilities, bins)
    if not len(given):
        return float("nan")
    rest = len(given) % 16
    product, total = given[rest:], float(np.log(given[:rest]).sum())
    for _ in range(4):
        product = product[0::2] * product[1::2]
    return -(total + float(np.log(product).sum())) / len(given)


def binary_log_score_rows(p_true: npt.ArrayLike, happened: npt.ArrayLike) -> Floats:
    """Log score of yes/no forecasts, row by row."""
    chances, truth = as_vectors(p_true, happened)
    result: Floats = -np.log(np.maximum(np.where(truth > 0, chances, 1.0 - chances), FLOOR))
    return result
