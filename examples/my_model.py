"""A surrogate of your own: kbench evaluate --surrogate examples/my_model.py --surrogate-arg sharpness=1.2"""

import math
from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

from kbench import Forecast, Pair, Query

WORDS = ("for ", "while", "mask", "tl.load", "tl.dot", "tl.arange", "num_warps", "num_stages", "float4", "uint4",
         "atomic", "__shared__", "__syncthreads", "__shfl", "mma", "launch", "block=")  # fmt: skip


def features(query: Query) -> list[float]:
    """How often telling words occur in the candidate, against the anchor and alone, and how long the texts are."""
    anchor, candidate = query.anchor_source, query.candidate_source
    counts = [[math.log1p(text.count(word)) for word in WORDS] + [math.log(len(text))] for text in (anchor, candidate)]
    return [*(b - a for a, b in zip(*counts, strict=True)), *counts[1], float(query.kind == "reference")]


class MyModel:
    """Trees over word counts; the share of votes for a bin is its probability."""

    inputs = "source"

    def __init__(self, sharpness: float = 1.0) -> None:
        self.sharpness = sharpness
        self.trees = ExtraTreesClassifier(100, min_samples_leaf=20, max_features=0.4, random_state=0)

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        self.trees.fit([features(query) for query, _ in train], [pair.bin for _, pair in train])

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        shares = np.full((len(queries), 8), 1e-3)
        shares[:, self.trees.classes_ - 1] += self.trees.predict_proba([features(query) for query in queries])
        shares **= self.sharpness
        rows = (shares / shares.sum(axis=1, keepdims=True)).tolist()
        return [Forecast(query_id=q.query_id, probabilities=tuple(row)) for q, row in zip(queries, rows, strict=True)]
