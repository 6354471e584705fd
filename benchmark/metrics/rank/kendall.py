"""Kendall's tau-b of forecasts and answers."""

from __future__ import annotations

import math

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK


def kendall(scores: npt.ArrayLike, speeds: npt.ArrayLike) -> float:
    """Concordant minus discordant pairs, corrected for ties; 0 when either is constant, NaN for fewer than two rows."""
    from scipy.stats import kendalltau

    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    tau = float(kendalltau(predicted, true).statistic)
    return 0.0 if math.isnan(tau) else tau


KENDALL = Metric(
    name="kendall",
    track=RANK,
    label="Kendall",
    meaning="Concordant minus discordant pairs of kernels within a pool, corrected for ties.",
    better=Better.HIGH,
    bounds=(-1.0, 1.0),
    figure=mean_over_pools(lambda pool: kendall(pool.scores, pool.speeds)),
    shown=Shown.BOARD,
)
