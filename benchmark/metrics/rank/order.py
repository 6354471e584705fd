"""How well a whole pool is ordered: Spearman, Kendall, NDCG and top-k recall."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK


def spearman(scores: npt.ArrayLike, speeds: npt.ArrayLike) -> float:
    """Correlation of ranks, ties at their mean rank; 0 when either is constant, NaN for fewer than two rows."""
    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    one, other = (ranks - ranks.mean() for ranks in (mean_ranks(predicted), mean_ranks(true)))
    scale = np.sqrt((one @ one) * (other @ other))
    return float(one @ other / scale) if scale > 0 else 0.0


def mean_ranks(values: Floats) -> Floats:
    """Rank of every value from 1, ties at their mean. scipy.stats has it too, and takes seconds to import."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    result: Floats = (ends - (counts - 1) / 2)[places]
    return result


SPEARMAN = Metric(
    name="spearman", track=RANK, label="Spearman",
    meaning="Rank correlation of forecast and measured speed within a pool.",
    figure=mean_over_pools(lambda pool: spearman(pool.scores, pool.speeds)), better=Better.HIGH, bounds=(-1.0, 1.0),
    shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip


def kendall(scores: npt.ArrayLike, speeds: npt.ArrayLike) -> float:
    """Concordant minus discordant pairs, corrected for ties; 0 when either is constant, NaN for fewer than two rows."""
    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    signs = (np.sign(values[:, None] - values) for values in (predicted, true))
    one, other = (sign[np.triu_indices(len(predicted), 1)] for sign in signs)
    # tau-b: of all pairs, those tied on one side are left out of that side's count.
    untied = np.count_nonzero(one), np.count_nonzero(other)
    tau = one @ other / np.sqrt(untied[0]) / np.sqrt(untied[1]) if all(untied) else 0.0
    return float(np.clip(tau, -1.0, 1.0))


KENDALL = Metric(
    name="kendall", track=RANK, label="Kendall",
    meaning="Concordant minus discordant pairs of kernels within a pool, corrected for ties.",
    figure=mean_over_pools(lambda pool: kendall(pool.scores, pool.speeds)), better=Better.HIGH, bounds=(-1.0, 1.0),
    shown=Shown.BOARD,
)  # fmt: skip


def ndcg(scores: npt.ArrayLike, speeds: npt.ArrayLike, k: int | None = None) -> float:
    """NDCG of the order by score, tied scores averaged; NaN for fewer than two rows."""
    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    gains = true / true.max()
    return _discounted(predicted, gains, k) / _discounted(gains, gains, k)


def _discounted(scores: Floats, gains: Floats, k: int | None) -> float:
    """Discounted gain of the first k in the order by score; each of several tied rows has the mean gain of them all."""
    _, level = np.unique(-scores, return_inverse=True)
    means = np.bincount(level, gains) / np.bincount(level)
    discounts = 1.0 / np.log2(np.arange(2, len(gains) + 2))
    discounts[len(gains) if k is None else k :] = 0.0
    return float(means[np.sort(level)] @ discounts)


NDCG = Metric(
    name="ndcg", track=RANK, label="NDCG",
    meaning="Discounted gain of the forecast order over that of the best order; a kernel's gain is its relative speed.",
    figure=mean_over_pools(lambda pool: ndcg(pool.scores, pool.speeds)), better=Better.HIGH, shown=Shown.BOARD,
)  # fmt: skip


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
    name="top_10_recall", track=RANK, label="Top-10 recall",
    meaning="Share of a pool's ten fastest kernels among the ten forecast to be fastest.",
    figure=mean_over_pools(lambda pool: top_k_recall(pool.scores, pool.speeds, 10)), better=Better.HIGH,
)  # fmt: skip
