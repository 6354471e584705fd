"""`nearest` and `lookup`: the labels of the most similar training kernels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.baselines import shares
from kbench.benchmark.surrogates.known import known_queries
from kbench.loaders.source.similarity import Grams, Similarities
from kbench.schemas import Forecast, PairKind, Query, Question, UserError, bins

TOKEN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d+(?:\.\d+)?|[^\s\w]")
WIDTH = 1 << 14
CHUNK = 512
KNOWN_WEIGHT = 8.0
"""How much more a kernel of the same problem tells than one of another problem."""
LEVELS = (0.3, 0.5, 0.7, 0.8, 0.9, 0.97)
"""Similarities at which trust in a neighbour changes."""
PRIOR_WEIGHT = 8.0
"""Weight of the kind's bin frequencies in each cell of the table of outcomes, in pairs."""
EVERY = 4
"""One training pair in so many is looked up while fitting; validation pairs all are."""


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

    def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        """Remember every training pair."""
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
            # Known kernels of a query about the reference count by how similar they are to the candidate.
            if about_known := known_queries(query):
                vectors = self._vectors([query, *about_known])
                similarity = np.asarray((vectors[1:] @ vectors[0].T).todense())[:, 0]
                places = bins.bins_of(np.array([kernel.speedup for kernel in query.known])) - 1
                np.add.at(row, places, KNOWN_WEIGHT * np.maximum(similarity, 0.0) ** 4)
        rows /= rows.sum(axis=1, keepdims=True)
        return [
            Forecast(query_id=q.query_id, probabilities=tuple(r.tolist())) for q, r in zip(queries, rows, strict=True)
        ]

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


class LookupSurrogate:
    """Looks both kernels of a query up and says how pairs as near as that came out in training."""

    inputs = "source"
    batch_size = 1 << 20
    """Training kernels are read once for all queries."""

    def __init__(self) -> None:
        """Nothing to set up."""
        self._sources: list[str] = []
        self._backends: npt.NDArray[np.object_] = np.zeros(0, dtype=object)
        self._problems: npt.NDArray[np.object_] = np.zeros(0, dtype=object)
        self._speedups: list[dict[str, float]] = []
        """Of each kernel, by GPU."""
        self._outcomes: Floats = np.zeros((len(PairKind), len(LEVELS) + 1, bins.COUNT, bins.COUNT))

    def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        """Remember every training kernel, and learn how far a looked-up bin can be trusted at each similarity.

        A training kernel is looked up among all others, which shows what near neighbours are worth; a validation kernel
        among other problems' kernels, which shows what distant ones are.
        """
        # A kernel measured on several GPUs is one kernel, or it would be found as its own nearest neighbour.
        known: dict[str, Query] = {}
        speedups: dict[str, dict[str, float]] = {}
        for query, pair in train:
            if query.kind is PairKind.REFERENCE and pair.speedup is not None:
                known.setdefault(pair.candidate_id, query)
                speedups.setdefault(pair.candidate_id, {}).setdefault(query.gpu, pair.speedup)
        self._sources = [query.candidate_source for query in known.values()]
        self._backends = np.array([query.backend.value for query in known.values()], dtype=object)
        self._problems = np.array([query.problem_id for query in known.values()], dtype=object)
        self._speedups = list(speedups.values())
        if not known:
            return
        truth = np.array([pair.bin for _, pair in train], dtype=np.int64)
        kinds = np.array([_kind(query) for query, _ in train], dtype=np.int64)
        for kind in range(len(PairKind)):
            self._outcomes[kind] = PRIOR_WEIGHT * np.array(shares(truth[kinds == kind].tolist()))
        some = [at for at, (_, pair) in enumerate(train) if pair.split == "validation" or at % EVERY == 0]
        hidden = [train[at][0].problem_id if train[at][1].split == "validation" else "" for at in some]
        looked, level = self._looked_up([train[at][0] for at in some], hidden)
        np.add.at(self._outcomes, (kinds[some], level, looked - 1, truth[some] - 1), 1.0)
        self._outcomes /= self._outcomes.sum(axis=-1, keepdims=True)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Outcomes of training pairs whose kernels were as near and whose looked-up bin was the same."""
        if not self._sources:
            return [Forecast(query_id=query.query_id, probabilities=tuple(shares(()))) for query in queries]
        looked, level = self._looked_up(queries, [""] * len(queries))
        rows = self._outcomes[[_kind(query) for query in queries], level, looked - 1]
        return [
            Forecast(query_id=query.query_id, probabilities=tuple(row.tolist()))
            for query, row in zip(queries, rows, strict=True)
        ]

    def _looked_up(self, queries: Sequence[Query], hidden: Sequence[str]) -> tuple[Ints, Ints]:
        """The bin that the neighbours' speedups give, and the level of the farther neighbour's similarity.

        No neighbour is of a query's `hidden` problem, where it names one.
        """
        pairs = np.array([query.kind is not PairKind.REFERENCE for query in queries], dtype=np.bool_)
        keys = [
            (query.anchor_source if anchor and compared else query.candidate_source, query.backend.value, problem)
            for anchor in (False, True)
            for query, compared, problem in zip(queries, pairs.tolist(), hidden, strict=True)
        ]
        first, near = self._neighbours(keys)
        # On the query's GPU, or on the first that the training kernel was measured on.
        measured = zip((self._speedups[at] for at in first.tolist()), [*queries, *queries], strict=True)
        speedups = [by_gpu.get(query.gpu, next(iter(by_gpu.values()))) for by_gpu, query in measured]
        (candidate, anchor), similarity = np.array(speedups).reshape(2, -1), near.reshape(2, -1).min(axis=0)
        speedup = np.where(pairs, candidate / anchor, candidate)
        return bins.bins_of(speedup).astype(np.int64), np.searchsorted(LEVELS, similarity, side="right")

    def _neighbours(self, keys: Sequence[tuple[str, str, str]]) -> tuple[Ints, Similarities]:
        """Position of the nearest training kernel, never the kernel itself, and its similarity.

        Each key is a source, its backend, and a problem that must not be looked at.
        """
        places = {key: at for at, key in enumerate(dict.fromkeys(keys))}
        sources, backends, hidden = (np.array(column, dtype=object) for column in zip(*places, strict=True))
        own = len(self._sources)
        grams = Grams([*self._sources, *sources.tolist()])
        index = {source: at for at, source in enumerate(self._sources)}
        itself = np.array([index.get(source, -1) for source in sources.tolist()])
        first: Ints = np.zeros(len(places), dtype=np.int64)
        near: Similarities = np.zeros(len(places), dtype=np.float32)
        for backend in sorted(set(backends.tolist()) & set(self._backends.tolist())):
            here, among = np.flatnonzero(backends == backend), np.flatnonzero(self._backends == backend)
            for part, block in grams.similarities(grams.row[own:][here], grams.row[:own][among]):
                asked = here[part]
                block[itself[asked][:, None] == among[None, :]] = 0.0
                block[hidden[asked][:, None] == self._problems[among][None, :]] = 0.0
                first[asked], near[asked] = among[block.argmax(axis=1)], block.max(axis=1)
        at = np.array([places[key] for key in keys], dtype=np.int64)
        return first[at], near[at]


def _kind(query: Query) -> int:
    return list(PairKind).index(query.kind)
