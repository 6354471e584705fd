"""Normalised discounted cumulative gain; a kernel's gain is its speed relative to the pool's best."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors


def ndcg(scores: npt.ArrayLike, speeds: npt.ArrayLike, k: int | None = None) -> float:
    """NDCG of the order by score, tied scores averaged; NaN for fewer than two rows."""
    from sklearn.metrics import ndcg_score

    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    return float(ndcg_score((true / true.max())[np.newaxis], predicted[np.newaxis], k=k))
