"""Training kernels as rows, with their targets and their problems' folds."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.surrogates.static.features.rows import KernelPool, RowLayout, capability
from kbench.benchmark.surrogates.static.training.mixes import Mixes
from kbench.schemas import Query, Status, UserError

Groups = npt.NDArray[np.object_]

FOLDS = 5
SMALLEST_SPREAD = 0.1


class Material:
    """Everything the models learn from except pairs."""

    def __init__(
        self, kernels: Sequence[tuple[Query, dict[str, Any]]], layout: RowLayout, mixes: Mixes | None = None
    ) -> None:
        """Make the rows.

        Args:
            kernels: what was measured, failures included.
            layout: of the rows.
            mixes: instruction mixes of as many of the kernels as there are; needed when the layout has them.

        Raises:
            UserError: no kernel is valid, so there is nothing to learn.
        """
        if not any(row["status"] == Status.OK for _, row in kernels):
            raise UserError("the training splits hold no kernel with status ok; static has nothing to learn from")
        self.layout = layout
        self.pool = KernelPool([query for query, _ in kernels])
        count = len(self.pool.sources)
        facts: list[CompilerFacts | None] = [None] * count
        self.valid = np.zeros(count, dtype=np.bool_)
        self.total, self.runtime_us = np.full(count, np.nan), np.full(count, np.nan)
        for at, (query, row) in zip(self.pool.candidate, kernels, strict=True):
            self.valid[at] = row["status"] == Status.OK
            facts[at] = _recorded(row, mixes.get(row["kernel_id"], capability(query)) if mixes else None)
            if row["speedup"] is not None:
                self.total[at], self.runtime_us[at] = np.log2(row["speedup"]), row["runtime_us"]
        self.mixes = sum(fact is not None and fact.instructions is not None for fact in facts)
        self.rows = layout.rows(self.pool, facts if layout.compiled else None)
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


def _recorded(row: dict[str, Any], mix: Mapping[str, int] | None) -> CompilerFacts | None:
    """What the compiler said when the kernel was measured, with its mix, which is not recorded."""
    values = [row.get(name) for name in ("registers", "shared_bytes", "spill_bytes")]
    return None if values[0] is None else CompilerFacts(values[0], values[1] or 0, values[2] or 0, mix)


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
