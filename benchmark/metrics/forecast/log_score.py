"""Log score: −ln of the probability given to the correct bin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, given_to, mean
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pairs
from kbench.benchmark.tracks import FORECAST

FLOOR = 1e-12
"""Least probability counted, so that one certain miss cannot make the mean infinite."""


def log_score_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Log score of every row, in nats."""
    result: Floats = -np.log(np.maximum(given_to(*check(probabilities, bins)), FLOOR))
    return result


def log_score(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean log score; lower is better."""
    return mean(log_score_rows(probabilities, bins))


LOG_SCORE = Metric(
    name="log_score", track=FORECAST, label="Log score",
    meaning="Negative logarithm of the probability given to the correct bin, in nats.",
    figure=mean_over_pairs(log_score_rows), better=Better.LOW, bounds=(0.0, float(-np.log(FLOOR))), shown=Shown.BOARD,
)  # fmt: skip
