"""Fitting trees: the same model from the same rows, and predictions by models that saw no row of the same fold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.static.features.rows import Rows
from kbench.benchmark.surrogates.static.forest import Forest, constant, from_sklearn

BOOSTED: dict[str, Any] = {
    # 64 bins are enough for tile sizes, and four times cheaper than the default.
    "learning_rate": 0.08, "max_bins": 64, "l2_regularization": 2.0, "max_features": 0.3, "early_stopping": False,
}  # fmt: skip
LEAF = 5
"""Fewest kernels per leaf where trees are averaged."""
DEPTH = 24
"""Deepest averaged tree: only lopsided ones would be deeper."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of the forests; tests train small ones."""

    kernel_trees: int = 50
    boosted_trees: int = 120
    pair_trees: int = 100
    width_trees: int = 50
    valid_trees: int = 100
    leaves: int = 16


def boosted(trees: int, leaves: int, seed: int, smallest_leaf: int = 15) -> Any:
    """Gradient-boosted trees for a number."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=smallest_leaf, random_state=seed, **BOOSTED
    )


def boosted_classifier(trees: int, leaves: int, seed: int) -> Any:
    """Gradient-boosted trees for yes or no."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=15, random_state=seed, **BOOSTED
    )


def averaged(trees: int, seed: int) -> Any:
    """Extremely randomised trees, averaged: on unseen problems they order kernels better than boosted ones."""
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(
        trees, min_samples_leaf=LEAF, max_depth=DEPTH, max_features=1.0, random_state=seed, n_jobs=1
    )


def fitted(model: Any, rows: Rows, target: Any, weights: Floats | None = None) -> Forest:
    """Fit on one thread, as arrays: sums over threads would differ from run to run, and waiting threads burn cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        # A column that never changes costs as much as one that does.
        kept = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
        if not len(kept):
            return constant(float(np.average(target, weights=weights)))
        return from_sklearn(model.fit(rows[:, kept], target, sample_weight=weights), kept)


def cross_fitted(
    make: Callable[[], Any], rows: Rows, target: Floats, fold: Ints, weights: Floats | None = None
) -> tuple[Forest, Floats]:
    """A forest of all rows, and predictions by forests that saw no row of the same fold.

    Args:
        make: gives an unfitted model.
        rows: what is known.
        target: a column, or [rows, outputs]; rows whose target is NaN are predicted but not learned from.
        fold: of each row.
        weights: of each row.
    """
    known = ~np.isnan(target.reshape(len(target), -1).sum(axis=1))

    def learn(chosen: npt.NDArray[np.bool_]) -> Forest:
        return fitted(make(), rows[chosen], target[chosen], None if weights is None else weights[chosen])

    whole = learn(known)
    folds = np.unique(fold)
    held_out = whole.outputs(rows)
    for each in folds if len(folds) > 1 else ():
        train = known & (fold != each)
        if train.any():
            held_out[fold == each] = learn(train).outputs(rows[fold == each])
    return whole, held_out if target.ndim > 1 else held_out[:, 0]
