"""Top-k recall: how many of a pool's k fastest kernels are among the k forecast to be fastest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.metric import Better, Metric
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK


def _membership(values: Floats, k: int) -> Floats:
    """Chance of each row to be among the k highest, rows tied at the cut sharing the places left."""
    cut = np.sort(values)[len(values) - k]
    above, tied = values > cut, values == cut
    result: Floats = above + tied * ((k - above.sum()) / tied.sum())
    return result


def top_k_recall(scores: npt.ArrayLike, speeds: npt.ArrayLike, k: int) -> float:
    """Expected share of the k fastest that are among the k highest scores; k is capped at the pool's size."""
    predicted, true = as_vectors(scores, speeds)
    k = min(k, len(predicted))
    if k < 1:
        return float("nan")
    return float(_membership(predicted, k) @ _membership(true, k) / k)


TOP_10_RECALL = Metric(
    name="top_10_recall",
    track=RANK,
    label="Top-10 recall",
    meaning="Share of a pool's ten fastest kernels among the ten forecast to be fastest.",
    better=Better.HIGH,
    figure=mean_over_pools(lambda pool: top_k_recall(pool.scores, pool.speeds, 10)),
)
