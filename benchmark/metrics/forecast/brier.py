"""Brier score, the half form: ½Σ(p − y)², from 0 to 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import COUNT


def brier_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Half-Brier of every row."""
    values, numbers = check(probabilities, bins)
    truth = np.eye(COUNT)[numbers - 1]
    result: Floats = 0.5 * ((values - truth) ** 2).sum(axis=1)
    return result


def brier(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean half-Brier; lower is better."""
    return mean(brier_rows(probabilities, bins))


BRIER = Metric(
    name="brier", track=FORECAST, label="Brier",
    meaning="Half the squared distance between the forecast distribution and the correct bin.",
    figure=mean_over_pairs(brier_rows), better=Better.LOW, shown=Shown.BOARD,
)  # fmt: skip
