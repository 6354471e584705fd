"""Log score: −ln of the probability given to what happened."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors, check, mean

FLOOR = 1e-12
"""Least probability counted, so that one certain miss cannot make the mean infinite."""


def log_score_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Log score of every row, in nats."""
    values, numbers = check(probabilities, bins)
    result: Floats = -np.log(np.maximum(values[np.arange(len(values)), numbers - 1], FLOOR))
    return result


def log_score(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean log score; lower is better."""
    return mean(log_score_rows(probabilities, bins))


def binary_log_score_rows(p_true: npt.ArrayLike, happened: npt.ArrayLike) -> Floats:
    """Log score of yes/no forecasts, row by row."""
    chances, truth = as_vectors(p_true, happened)
    result: Floats = -np.log(np.maximum(np.where(truth > 0, chances, 1.0 - chances), FLOOR))
    return result
