"""Training kernels as rows, with their targets and their problems' folds."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.static.features.rows import KernelPool, RowLayout
from kbench.schemas import Query, Status, UserError

Groups = npt.NDArray[np.object_]

FOLDS = 5
SMALLEST_SPREAD = 0.1


class Material:
    """Everything the models learn from except pairs."""

    def __init__(self, kernels: Sequence[tuple[Query, dict[str, Any]]], layout: RowLayout) -> None:
        """Make the rows.

        Args:
            kernels: what was measured, failures included.
            layout: of the rows.

        Raises:
            UserError: no kernel is valid, so there is nothing to learn.
        """
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
        result: npt.NDArray[np.bool_] = ~np.isnan(self.total)
        return result


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
        known = values[rows][~np.isnan(values[rows])]
        result[rows] = max(float(known.std()) if len(known) else 1.0, SMALLEST_SPREAD)
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
    result: Floats = weights / weights.mean()
    return result
