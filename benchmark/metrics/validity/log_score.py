"""Log score of P(valid): −ln of the probability given to what happened."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.forecast.log_score import FLOOR
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.tracks import VALIDITY


def binary_log_score_rows(p_true: npt.ArrayLike, happened: npt.ArrayLike) -> Floats:
    """Log score of every yes/no forecast, in nats."""
    chances, truth = as_vectors(p_true, happened)
    result: Floats = -np.log(np.maximum(np.where(truth > 0, chances, 1.0 - chances), FLOOR))
    return result


VALIDITY_LOG_SCORE = Metric(
    name="log_score",
    track=VALIDITY,
    label="Log score",
    meaning="Negative logarithm of the probability given to what happened, in nats.",
    better=Better.LOW,
    bounds=(0.0, float(-np.log(FLOOR))),
    figure=lambda bootstrap, rows: bootstrap.mean(binary_log_score_rows(rows.p_valid, rows.valid)),
    shown=Shown.BOARD,
    ceiling=Ceiling.NONE,
)
