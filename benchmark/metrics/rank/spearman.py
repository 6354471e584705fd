"""Spearman rank correlation of forecasts and answers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK


def spearman(scores: npt.ArrayLike, speeds: npt.ArrayLike) -> float:
    """Correlation of ranks, ties at their mean rank; 0 when either is constant, NaN for fewer than two rows."""
    from scipy.stats import rankdata

    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    one, other = rankdata(predicted), rankdata(true)
    one, other = one - one.mean(), other - other.mean()
    scale = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / scale) if scale > 0 else 0.0


SPEARMAN = Metric(
    name="spearman",
    track=RANK,
    label="Spearman",
    meaning="Rank correlation of forecast and measured speed within a pool.",
    better=Better.HIGH,
    bounds=(-1.0, 1.0),
    figure=mean_over_pools(lambda pool: spearman(pool.scores, pool.speeds)),
    shown=Shown.BOARD,
    ceiling=Ceiling.BINDING,
)
