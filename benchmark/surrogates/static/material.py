"""Training `static`: kernels as rows with targets and folds, cross-fitted trees, and held-out forecasts scored."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import PairRows, Pool, PoolRows
from kbench.benchmark.metrics.registry import figures
from kbench.benchmark.scoring.rows import LEAST_RANKED
from kbench.benchmark.surrogates.static.forest import Forest, constant, from_sklearn
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool, RowLayout, Rows
from kbench.schemas import PairKind, Query, Question, Status, UserError, bins

Groups = npt.NDArray[np.object_]

FOLDS = 5
SMALLEST_SPREAD = 0.1
BOOSTED: dict[str, Any] = {
    # 64 bins are enough for tile sizes, and four times cheaper than the default.
    "learning_rate": 0.08, "max_bins": 64, "l2_regularization": 2.0, "max_features": 0.3, "early_stopping": False,
}  # fmt: skip
LEAF = 5
"""Fewest kernels per leaf where trees are averaged."""
DEPTH = 24
"""Deepest averaged tree: only lopsided ones would be deeper."""
Strings = npt.NDArray[np.object_]

SHOWN = ("skill", "ece", "accuracy", "log_score", "aurc", "regret_at_10", "within_20_at_10", "spearman")


class Material:
    """Everything the models learn from except pairs."""

    def __init__(self, kernels: Sequence[tuple[Query, dict[str, Any]]], layout: RowLayout) -> None:
        """Make the rows."""
        if not any(row["status"] == Status.OK for _, row in kernels):
            raise UserError("the training splits hold no kernel with status ok; static has nothing to learn from")
        self.layout = layout
        self.pool = KernelPool([query for query, _ in kernels])
        count = len(self.pool.sources)
        self.valid = np.zeros(count, dtype=np.bool_)
        self.total, self.runtime_us = np.full(count, np.nan), np.full(count, np.nan)
        for at, (_, row) in zip(self.pool.candidate, kernels, strict=True):
            self.valid[at] = row["status"] == Status.OK
            if row["speedup"] is not None:
                self.total[at], self.runtime_us[at] = np.log2(row["speedup"]), row["runtime_us"]
        self.rows = layout.rows(self.pool)
        self.problems: Groups = np.array([query.problem_id for query in self.pool.queries], dtype=object)
        self.fold = np.array([zlib.crc32(str(p).encode()) % FOLDS for p in self.problems], dtype=np.int64)
        self.pools = _pools(self.pool.queries)
        self.within = _centred(self.total, self.pools)
        self.spread = _spreads(self.within, self.pools)
        self.place = _places(self.total, self.pools)
        self.weights = _balanced(self.problems, self.valid)

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Kernels with a runtime."""
        return ~np.isnan(self.total)


def _pools(queries: Sequence[Query]) -> Ints:
    """A number for each query's problem and GPU, in the order of their names: only kernels of one pool compare."""
    named = [(query.problem_id, query.gpu) for query in queries]
    numbers = {name: number for number, name in enumerate(sorted(set(named)))}
    return np.array([numbers[name] for name in named], dtype=np.int64)


def _centred(values: Floats, groups: Ints) -> Floats:
    result = values.copy()
    for group in set(groups.tolist()):
        rows = groups == group
        result[rows] -= np.nanmedian(values[rows]) if np.any(~np.isnan(values[rows])) else 0.0
    return result


def _spreads(values: Floats, groups: Ints) -> Floats:
    """Standard deviation within each kernel's pool: in its units pools are comparable."""
    result = np.ones(len(values))
    for group in set(groups.tolist()):
        rows = groups == group
        measured = values[rows][~np.isnan(values[rows])]
        result[rows] = max(float(measured.std()) if len(measured) else 1.0, SMALLEST_SPREAD)
    return result


def _places(values: Floats, groups: Ints) -> Floats:
    """Where each kernel stands in its pool, as normal scores: how far ahead the fastest is does not matter."""
    from scipy.stats import norm, rankdata

    result = np.full(len(values), np.nan)
    for group in set(groups.tolist()):
        rows = np.flatnonzero((groups == group) & ~np.isnan(values))
        result[rows] = norm.ppf((rankdata(values[rows]) - 0.5) / max(len(rows), 1))
    return result


def _balanced(groups: Groups, counted: npt.NDArray[np.bool_]) -> Floats:
    """Every problem weighs the same up to a square root, so that large pools do not drown small ones."""
    names, index = np.unique(groups.astype(str), return_inverse=True)
    count = np.bincount(index, weights=counted, minlength=len(names))
    weights = 1.0 / np.sqrt(np.maximum(count[index], 1.0))
    return weights / weights.mean()


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
        varying = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
        if not len(varying):
            return constant(float(np.average(target, weights=weights)))
        return from_sklearn(model.fit(rows[:, varying], target, sample_weight=weights), varying)


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
    labelled = ~np.isnan(target.reshape(len(target), -1).sum(axis=1))

    def learn(chosen: npt.NDArray[np.bool_]) -> Forest:
        return fitted(make(), rows[chosen], target[chosen], None if weights is None else weights[chosen])

    whole = learn(labelled)
    folds = np.unique(fold)
    held_out = whole.outputs(rows)
    for each in folds if len(folds) > 1 else ():
        train = labelled & (fold != each)
        if train.any():
            held_out[fold == each] = learn(train).outputs(rows[fold == each])
    return whole, held_out if target.ndim > 1 else held_out[:, 0]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Forecasts of training questions by models of other folds."""

    probabilities: Floats
    """[questions, 8]: over the reference first, then between kernels."""
    bin: Ints
    problem: Strings
    kind: Strings
    """A PairKind each."""
    kernel_problem: Strings
    kernel_pool: Ints
    """Number of its problem and GPU."""
    kernel_point: Floats
    """Forecast log2 speedup of every measured kernel over the reference."""
    kernel_runtime_us: Floats

    @classmethod
    def of(
        cls,
        material: Material,
        point: Floats,
        over_reference: Floats,
        pairs: Sequence[tuple[Query, Question]],
        between: Floats,
    ) -> HeldOut:
        """Match forecasts with their answers."""
        timed = material.known
        problems = material.problems[timed]
        speedups = np.concatenate([2.0 ** material.total[timed], [pair.speedup for _, pair in pairs]])
        kinds = [PairKind.REFERENCE] * len(problems) + [query.kind for query, _ in pairs]
        return cls(
            probabilities=np.concatenate([over_reference, between]),
            bin=bins.bins_of(speedups),
            problem=np.array([*problems.tolist(), *(query.problem_id for query, _ in pairs)], dtype=object),
            kind=np.array(kinds, dtype=object),
            kernel_problem=problems,
            kernel_pool=material.pools[timed],
            kernel_point=point[timed],
            kernel_runtime_us=material.runtime_us[timed],
        )

    def figures(self) -> dict[str, dict[str, list[float]]]:
        """Value, low and high of the headline metrics: of all questions, of each kind, and of the pools."""
        prior = np.bincount(self.bin - 1, minlength=bins.COUNT) + 1.0
        figures_of: dict[str, dict[str, list[float]]] = {}
        for kind in ("all", *sorted(set(self.kind.tolist()))):
            rows = np.flatnonzero((self.kind == kind) | (kind == "all"))
            figures_of[str(kind)] = _shown(self._pair_figures(rows, prior / prior.sum()))
        figures_of["pools"] = _shown(self._pool_figures(self.kernel_point))
        figures_of["pools at random"] = _shown(self._pool_figures(np.zeros(len(self.kernel_point))))
        return figures_of

    def _pair_figures(self, rows: Ints, prior: Floats) -> dict[str, Figure]:
        answered = PairRows.all_answered(self.probabilities[rows], self.bin[rows], prior)
        bootstrap = Bootstrap(self.problem[rows])
        return figures("forecast", bootstrap, answered) | figures("select", bootstrap, answered)

    def _pool_figures(self, scores: Floats) -> dict[str, Figure]:
        pools = [np.flatnonzero(self.kernel_pool == pool) for pool in np.unique(self.kernel_pool)]
        large_enough = [rows for rows in pools if len(rows) >= LEAST_RANKED]
        ranked = PoolRows(tuple(Pool(scores[rows], self.kernel_runtime_us[rows]) for rows in large_enough))
        # Pools of one problem are alike: they are drawn together.
        problems = np.array([self.kernel_problem[rows[0]] for rows in large_enough], dtype=object)
        return figures("rank", Bootstrap(problems), ranked)


def _shown(figures: dict[str, Figure]) -> dict[str, list[float]]:
    return {
        name: [round(value, 4) for value in (figure.value, figure.low, figure.high)]
        for name in SHOWN
        if (figure := figures.get(name)) is not None
    }
