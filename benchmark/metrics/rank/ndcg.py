"""Normalised discounted cumulative gain; a kernel's gain is its speed relative to the pool's best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK


def ndcg(scores: npt.ArrayLike, speeds: npt.ArrayLike, k: int | None = None) -> float:
    """NDCG of the order by score, tied scores averaged; NaN for fewer than two rows."""
    from sklearn.metrics import ndcg_score

    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    return float(ndcg_score((true / true.max())[np.newaxis], predicted[np.newaxis], k=k))


NDCG = Metric(
    name="ndcg",
    track=RANK,
    label="NDCG",
    meaning="Discounted gain of the forecast order over that of the best order; a kernel's gain is its relative speed.",
    better=Better.HIGH,
    figure=mean_over_pools(lambda pool: ndcg(pool.scores, pool.speeds)),
    shown=Shown.BOARD,
)
