"""Sharpness: how concentrated forecasts are, answers aside. 1 − H/ln 8."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_probabilities, mean
from kbench.benchmark.metrics.metric import Better, Metric
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import COUNT


def entropy(probabilities: npt.ArrayLike) -> Floats:
    """Entropy of every row in nats; an impossible bin adds nothing."""
    values = as_probabilities(probabilities)
    result: Floats = -(values * np.log(np.where(values > 0, values, 1.0))).sum(axis=1)
    return result


def sharpness_rows(probabilities: npt.ArrayLike) -> Floats:
    """Sharpness of every row: 0 for the uniform forecast, 1 for certainty."""
    result: Floats = 1.0 - entropy(probabilities) / math.log(COUNT)
    return result


def sharpness(probabilities: npt.ArrayLike) -> float:
    """Mean sharpness."""
    return mean(sharpness_rows(probabilities))


SHARPNESS = Metric(
    name="sharpness", track=FORECAST, label="Sharpness",
    meaning="How concentrated the forecasts are, answers aside: 0 is uniform, 1 is certain.",
    figure=lambda bootstrap, rows: bootstrap.mean(sharpness_rows(rows.probabilities)), better=Better.HIGH,
)  # fmt: skip
