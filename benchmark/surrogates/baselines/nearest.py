"""`nearest`: the answers of the most similar training pairs, by the tokens of both sources."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.baselines.prior import shares
from kbench.benchmark.surrogates.known import known_queries
from kbench.schemas import Forecast, Pair, Query, UserError, bins

TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d+)?|[^\s\w]")
WIDTH = 1 << 14
CHUNK = 512
KNOWN_WEIGHT = 8.0
"""How much more a kernel of the same problem tells than one of another problem."""


class NearestSurrogate:
    """Weighted bin frequencies of the k training pairs with the most similar token counts."""

    inputs = "source"

    def __init__(self, neighbours: int = 24, prior_weight: float = 4.0) -> None:
        """Set up.

        Args:
            neighbours: how many training pairs answer.
            prior_weight: weight of the training frequencies, in pairs.
        """
        if neighbours < 1:
            raise UserError(f"neighbours is {neighbours}; it must be at least 1")
        self._neighbours, self._prior_weight = neighbours, prior_weight
        self._matrix: Any = None
        self._labels = np.zeros(0, dtype=np.int64)
        self._prior = np.asarray(shares(()))

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Remember every training pair.

        Raises:
            UserError: there is none to remember.
        """
        if not train:
            raise UserError("surrogate 'nearest' needs training pairs, and the corpus has no train split; give --train")
        self._matrix = self._vectors([query for query, _ in train])
        self._labels = np.array([pair.bin for _, pair in train], dtype=np.int64)
        self._prior = np.asarray(shares(self._labels.tolist()))

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Bin frequencies among the neighbours and the known kernels, the closest counting most."""
        rows = np.tile(self._prior * self._prior_weight, (len(queries), 1))
        if self._matrix is not None and len(self._labels):
            for start in range(0, len(queries), CHUNK):
                part = queries[start : start + CHUNK]
                similarity = np.asarray((self._vectors(part) @ self._matrix.T).todense())
                count = min(self._neighbours, len(self._labels))
                near = np.argpartition(-similarity, count - 1, axis=1)[:, :count]
                weight = np.maximum(np.take_along_axis(similarity, near, axis=1), 0.0) ** 4
                at = np.repeat(np.arange(start, start + len(part)), count)
                np.add.at(rows, (at, self._labels[near].ravel() - 1), weight.ravel())
        for row, query in zip(rows, queries, strict=True):
            self._add_known(row, query)
        rows /= rows.sum(axis=1, keepdims=True)
        return [
            Forecast(query_id=q.query_id, probabilities=tuple(r.tolist())) for q, r in zip(queries, rows, strict=True)
        ]

    def _add_known(self, row: Floats, query: Query) -> None:
        """Count the known kernels of a query about the reference by how similar they are to the candidate."""
        asked = known_queries(query)
        if asked:
            vectors = self._vectors([query, *asked])
            similarity = np.asarray((vectors[1:] @ vectors[0].T).todense())[:, 0]
            places = bins.bins_of(np.array([kernel.speedup for kernel in query.known])) - 1
            np.add.at(row, places, KNOWN_WEIGHT * np.maximum(similarity, 0.0) ** 4)

    def _vectors(self, queries: Sequence[Query]) -> Any:
        """Hashed token counts of the candidate and of what it changes against the anchor, at unit length."""
        from scipy.sparse import hstack
        from sklearn.feature_extraction.text import HashingVectorizer
        from sklearn.preprocessing import normalize

        hashing = HashingVectorizer(n_features=WIDTH, tokenizer=TOKEN.findall, token_pattern=None, lowercase=False,
                                    norm=None, alternate_sign=False)  # fmt: skip
        distinct = dict.fromkeys(text for q in queries for text in (q.candidate_source, q.anchor_source))
        texts = {text: index for index, text in enumerate(distinct)}
        counts = hashing.transform(list(texts) or [""]).log1p()
        candidates = counts[[texts[q.candidate_source] for q in queries]]
        changes = candidates - counts[[texts[q.anchor_source] for q in queries]]
        return normalize(hstack([normalize(candidates), normalize(changes)]).tocsr())
