"""A surrogate of your own: kbench evaluate --surrogate examples/my_model.py --surrogate-arg sharpness=1.2"""

import functools
import math
import re
from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from kbench import Forecast, Pair, Query

WORDS = ("for ", "while", "mask", "tl.load", "tl.dot", "tl.arange", "num_warps", "num_stages", "float4", "uint4",
         "atomic", "__shared__", "__syncthreads", "__shfl", "mma", "launch", "block=")  # fmt: skip
SETTINGS = ("BLOCK", "num_warps", "num_stages", "THREADS", "unroll", "")
"""Names before numbers; the last stands for any."""
VALID = {"cuda": 0.96, "triton": 0.92}
"""A guess by backend: in training, Triton kernels fail a little more often."""


@functools.cache
def of_text(text: str) -> list[float]:
    """How often telling words occur, the mean log of numbers behind telling names, and how long the text is."""
    found = [re.findall(rf"{name}\w*\W{{1,3}}(\d{{1,9}})\b", text) for name in SETTINGS]
    means = [sum(math.log1p(int(n)) for n in each) / max(len(each), 1) for each in found]
    return [*(math.log1p(text.count(word)) for word in WORDS), *means, math.log(len(text))]


def features(query: Query) -> list[float]:
    """What the candidate's text says, against the anchor's and alone."""
    anchor, candidate = of_text(query.anchor_source), of_text(query.candidate_source)
    return [*(b - a for a, b in zip(anchor, candidate, strict=True)), *candidate]


class MyModel:
    """Trees over words and numbers, for each kind of pair; the share of votes for a bin is its probability.

    Other trees order the kernels of a problem: they learn how much faster one is than the others.
    """

    inputs = "source"

    def __init__(self, sharpness: float = 1.0) -> None:
        self.sharpness = sharpness
        self.trees: dict[str, ExtraTreesClassifier] = {}
        self.order = ExtraTreesRegressor(100, min_samples_leaf=10, max_features=0.4, random_state=0)

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        for kind in {pair.kind for _, pair in train}:
            rows = [(features(query), pair.bin) for query, pair in train if pair.kind == kind]
            trees = ExtraTreesClassifier(100, min_samples_leaf=10, max_features=0.4, random_state=0)
            self.trees[kind] = trees.fit([row for row, _ in rows], [number for _, number in rows])
        alone = [(query, pair) for query, pair in train if pair.kind == "reference"]
        speeds: dict[tuple[str, str, str], list[float]] = {}
        for query, pair in alone:
            speeds.setdefault((query.problem_id, query.backend, query.gpu), []).append(math.log2(pair.speedup))
        usual = {pool: sum(found) / len(found) for pool, found in speeds.items()}
        if not alone:
            return
        self.order.fit(
            [of_text(query.candidate_source) for query, _ in alone],
            [math.log2(pair.speedup) - usual[query.problem_id, query.backend, query.gpu] for query, pair in alone],
        )

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        return [forecast for kind, trees in self.trees.items() for forecast in self._of_kind(queries, kind, trees)]

    def _of_kind(self, queries: Sequence[Query], kind: str, trees: ExtraTreesClassifier) -> list[Forecast]:
        asked = [query for query in queries if query.kind == kind]
        shares = np.full((len(asked), 8), 1e-3)
        if asked:
            shares[:, trees.classes_ - 1] += trees.predict_proba([features(query) for query in asked])
        shares **= self.sharpness
        rows = (shares / shares.sum(axis=1, keepdims=True)).tolist()
        speedups: list[float | None] = [None] * len(asked)
        if asked and kind == "reference":
            # Only the order within a pool counts: this is relative to the pool's mean, not to PyTorch.
            speedups = (2.0 ** self.order.predict([of_text(query.candidate_source) for query in asked])).tolist()
        return [
            Forecast(query_id=query.query_id, probabilities=tuple(row), speedup=speedup, p_valid=VALID[query.backend])
            for query, row, speedup in zip(asked, rows, speedups, strict=True)
        ]
