"""Sharpness: how concentrated forecasts are, answers aside. 1 − H/ln 8."""

from __future__ import annotations

import math

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, mean
from kbench.benchmark.metrics.forecast.distribution import entropy
from kbench.schemas.bins import COUNT


def sharpness_rows(probabilities: npt.ArrayLike) -> Floats:
    """Sharpness of every row: 0 for the uniform forecast, 1 for certainty."""
    result: Floats = 1.0 - entropy(probabilities) / math.log(COUNT)
    return result


def sharpness(probabilities: npt.ArrayLike) -> float:
    """Mean sharpness."""
    return mean(sharpness_rows(probabilities))
