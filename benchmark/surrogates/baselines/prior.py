"""`uniform` and `prior`: what knowing nothing scores, and what looking at no code scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.tasks.asked import of_gpu
from kbench.schemas import Forecast, Pair, PairKind, Query, bins

Shares = tuple[float, ...]


def shares(numbers: Sequence[int]) -> Shares:
    """Frequencies of the bins, with one pseudo-pair per bin so that none is impossible."""
    counts = np.bincount(np.asarray(numbers, dtype=np.int64), minlength=bins.COUNT + 1)[1:] + 1.0
    return tuple(float(share) for share in counts / counts.sum())


class UniformSurrogate:
    """Gives every bin one eighth."""

    inputs = "source"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One eighth each."""
        eighths = shares(())
        return [Forecast(query_id=query.query_id, probabilities=eighths) for query in queries]


class PriorSurrogate:
    """Answers with the frequency of each bin in training, by kind of pair."""

    inputs = "source"

    def __init__(self) -> None:
        """Uniform until fitted."""
        self._shares: Mapping[PairKind, Shares] = dict.fromkeys(PairKind, shares(()))

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Count bins by kind."""
        self._count((pair.kind, pair.bin) for _, pair in train)

    def fit_corpus(self, corpus: Any) -> None:
        """Count bins by kind straight from the pairs' table: the sources are not needed.

        On the GPU asked about; on all of them where training has none of it, as when it is held out.
        """
        pairs = corpus.table("pairs", split=["train", "validation"], columns=["kind", "bin", "gpu"]).to_pylist()
        self._count((row["kind"], row["bin"]) for row in of_gpu(pairs, corpus) or pairs)

    def _count(self, pairs: Iterable[tuple[str, int]]) -> None:
        numbers: dict[str, list[int]] = {kind: [] for kind in PairKind}
        for kind, number in pairs:
            numbers.setdefault(kind, []).append(number)
        self._shares = {kind: shares(numbers[kind]) for kind in PairKind}

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The frequencies of the query's kind."""
        return [Forecast(query_id=query.query_id, probabilities=self._shares[query.kind]) for query in queries]
