"""A surrogate: it says how much faster one GPU kernel is than another, and how sure it is.

kbench evaluate --surrogate my_model.py --split validation   while you edit: it learns from train alone
kbench evaluate --surrogate my_model.py --out my-entry       once, at the end: test, an entry for the leaderboard

Results of functions under @kbench.cached are kept until their code or arguments change: in __kbench_cache__ beside this
file, 200 MB at most. The folder may be deleted.
"""

import functools
import math
import re
from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

import kbench
from kbench import Forecast, Query, Question

WORDS = ("for ", "while", "mask", "tl.load", "tl.dot", "tl.arange", "num_warps", "num_stages", "float4", "uint4",
         "atomic", "__shared__", "__syncthreads", "__shfl", "mma", "launch", "block=")  # fmt: skip
SETTINGS = ("BLOCK", "num_warps", "num_stages", "THREADS", "unroll", "")
"""Names before numbers; the last stands for any."""
SOURCES = ("anchor_source", "candidate_source")


@functools.cache
def of_text(text: str) -> tuple[float, ...]:
    """How often telling words occur, the mean log of numbers behind telling names, and how long the text is."""
    numbers = [re.findall(rf"{name}\w*\W{{1,3}}(\d{{1,9}})\b", text) for name in SETTINGS]
    means = [sum(math.log1p(int(n)) for n in each) / max(len(each), 1) for each in numbers]
    return (*(math.log1p(text.count(word)) for word in WORDS), *means, math.log(len(text)))


def features(anchors: Sequence[str], candidates: Sequence[str]) -> np.ndarray:
    """What the candidates' texts say, against the anchors' and alone. A query knows more: problem, shapes, GPU."""
    anchor, candidate = (np.array([of_text(text) for text in texts]) for texts in (anchors, candidates))
    return np.hstack([candidate - anchor, candidate])


def pool_of(query: Query) -> tuple[str, str, str]:
    """Kernels of a pool are ordered among each other."""
    return query.problem_id, query.backend, query.gpu


@kbench.cached
def classifier(anchors: list[str], candidates: list[str], bins: list[int]) -> ExtraTreesClassifier:
    """Trees whose share of votes for a bin of the speedup is its probability."""
    trees = ExtraTreesClassifier(100, min_samples_leaf=10, max_features=0.4, random_state=0)
    return trees.fit(features(anchors, candidates), bins)


@kbench.cached
def regressor(candidates: list[str], log_speedups: list[float]) -> ExtraTreesRegressor:
    """Trees that order the kernels of a problem: they learn how much faster one is than the others."""
    trees = ExtraTreesRegressor(100, min_samples_leaf=10, max_features=0.4, random_state=0)
    return trees.fit([of_text(text) for text in candidates], log_speedups)


class MyModel:
    """Trees over words and numbers, for each kind of pair."""

    inputs = "source"

    def __init__(self, sharpness: float = 1.0) -> None:
        """Arguments come from the command line: --surrogate-arg sharpness=1.2. Below 1, forecasts are less sure."""
        self.sharpness = sharpness
        self.trees: dict[str, ExtraTreesClassifier] = {}
        self.order: ExtraTreesRegressor | None = None

    def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        """Learn from queries and their measured answers: of `train`, and of `validation` unless that is asked about."""
        for kind in sorted({query.kind for query, _ in train}):
            rows = [(query, answer) for query, answer in train if query.kind == kind]
            anchors, candidates = ([getattr(query, name) for query, _ in rows] for name in SOURCES)
            self.trees[kind] = classifier(anchors, candidates, [answer.bin for _, answer in rows])
        alone = [(query, math.log2(answer.speedup)) for query, answer in train if query.kind == "reference"]
        pools: dict[tuple[str, str, str], list[float]] = {}
        for query, speed in alone:
            pools.setdefault(pool_of(query), []).append(speed)
        means = {pool: sum(speeds) / len(speeds) for pool, speeds in pools.items()}
        if alone:
            relative = [speed - means[pool_of(query)] for query, speed in alone]
            self.order = regressor([query.candidate_source for query, _ in alone], relative)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One forecast per query, in any order: how likely each of eight bins of anchor time / candidate time is."""
        kinds = {kind: [query for query in queries if query.kind == kind] for kind in self.trees}
        return [forecast for kind, asked in kinds.items() if asked for forecast in self._of_kind(asked, kind)]

    def _of_kind(self, queries: Sequence[Query], kind: str) -> list[Forecast]:
        shares, trees = np.full((len(queries), 8), 1e-3), self.trees[kind]
        anchors, candidates = ([getattr(query, name) for query in queries] for name in SOURCES)
        shares[:, trees.classes_ - 1] += trees.predict_proba(features(anchors, candidates))
        shares **= self.sharpness
        rows = (shares / shares.sum(axis=1, keepdims=True)).tolist()
        speedups: list[float | None] = [None] * len(queries)
        if kind == "reference" and self.order is not None:
            # Only the order within a pool counts: this is relative to the pool's mean, not to PyTorch.
            speedups = (2.0 ** self.order.predict([of_text(text) for text in candidates])).tolist()
        return [
            Forecast(query_id=query.query_id, probabilities=tuple(row), speedup=speedup)
            for query, row, speedup in zip(queries, rows, speedups, strict=True)
        ]
