"""Baselines that turn one number of a query into a distribution: bin frequencies of training pairs with a like one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import Forecast, Pair, PairKind, Query, bins

GROUPS = 8
"""Quantile groups of the number, within each kind of pair."""


class BinnedSurrogate:
    """Subclasses say which number; the rest is counting."""

    inputs = "source"

    def __init__(self) -> None:
        """Uniform until fitted."""
        self._cuts: dict[PairKind, Floats] = {kind: np.zeros(0) for kind in PairKind}
        self._shares: dict[PairKind, Floats] = {kind: np.full((1, bins.COUNT), 1 / bins.COUNT) for kind in PairKind}

    def number(self, query: Query) -> float:
        """The number looked at; larger should mean faster, though only training decides."""
        raise AssertionError("subclasses define number")

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Cut the number at its quantiles and count bins in every group."""
        for kind in PairKind:
            rows = [(self.number(query), pair.bin) for query, pair in train if pair.kind is kind]
            if not rows:
                continue
            numbers, labels = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
            cuts = np.unique(np.quantile(numbers, np.arange(1, GROUPS) / GROUPS))
            group = np.searchsorted(cuts, numbers, side="right")
            counts = np.zeros((len(cuts) + 1, bins.COUNT))
            np.add.at(counts, (group, labels - 1), 1.0)
            overall = counts.sum(axis=0) + 1.0
            # Small groups lean on the kind's own frequencies.
            counts += 8.0 * overall / overall.sum()
            self._cuts[kind], self._shares[kind] = cuts, counts / counts.sum(axis=1, keepdims=True)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Frequencies of the query's group."""
        made = []
        for query in queries:
            group = int(np.searchsorted(self._cuts[query.kind], self.number(query), side="right"))
            made.append(
                Forecast(query_id=query.query_id, probabilities=tuple(self._shares[query.kind][group].tolist()))
            )
        return made
