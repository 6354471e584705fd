"""`prior`: how often each bin occurred in training, by kind of pair. What looking at no code scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.schemas import Forecast, Pair, PairKind, Query, bins

Shares = tuple[float, ...]


def shares(numbers: Sequence[int]) -> Shares:
    """Frequencies of the bins, one imagined pair a bin added so that none is impossible."""
    counts = np.bincount(np.asarray(numbers, dtype=np.int64), minlength=bins.COUNT + 1)[1:] + 1.0
    return tuple(float(share) for share in counts / counts.sum())


class PriorSurrogate:
    """Answers with training frequencies, whatever is asked."""

    inputs = "source"

    def __init__(self) -> None:
        """Uniform until fitted."""
        self._shares: Mapping[PairKind, Shares] = dict.fromkeys(PairKind, shares(()))

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Count bins by kind."""
        self._shares = {kind: shares([pair.bin for _, pair in train if pair.kind is kind]) for kind in PairKind}

    def fit_corpus(self, corpus: Any) -> None:
        """Count bins by kind straight from the pairs' table: the sources are not needed."""
        table = corpus.table("pairs", split=["train", "validation"], columns=["kind", "bin"])
        kinds, numbers = table.column("kind").to_pylist(), table.column("bin").to_pylist()
        self._shares = {
            kind: shares([n for k, n in zip(kinds, numbers, strict=True) if k == kind]) for kind in PairKind
        }

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The frequencies of the query's kind."""
        return [Forecast(query_id=query.query_id, probabilities=self._shares[query.kind]) for query in queries]
