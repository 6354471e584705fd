"""Track rank: does it order a pool? The order of the whole pool, and what measuring its top finds.

Regret measures only the top share of a pool by forecast: how much slower is the best found than the pool's best? Where
the cut falls among tied scores, the kernels measured are drawn from the tie at random and regret is the mean over all
draws, computed exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Pool, PoolRows, Shown, mean_over_pools
from kbench.benchmark.tracks import RANK
from kbench.schemas.errors import UserError

FRACTIONS: tuple[float, ...] = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)
HEADLINE = 0.1
CAP = 0.5
"""Most a pool counts in the capped mean: beyond it a kernel is lost either way."""


def measured(rows: int, fraction: float) -> int:
    """How many of a pool's kernels a share buys: rounded up, at least one."""
    if not 0 < fraction <= 1:
        raise UserError(f"fraction is {fraction!r}; it must be more than 0 and at most 1")
    # The small slack keeps 0.1 × 30 = 3.0000000000000004 from buying a fourth kernel.
    return max(1, math.ceil(fraction * rows - 1e-9))


def expected_minimum(sorted_values: Floats, draws: int, limit: float) -> float:
    """Mean of min(limit, smallest of `draws` values drawn without replacement)."""
    count = len(sorted_values)
    # P(the smallest drawn is the j-th) = P(none before j drawn) × P(j drawn | none before j drawn).
    chance, total = 1.0, 0.0
    for position, value in enumerate(sorted_values):
        drawn = min(1.0, draws / (count - position))
        total += chance * drawn * min(limit, float(value))
        chance *= 1.0 - drawn
        if chance <= 0.0:
            break
    return total


def best_runtime(scores: Floats, runtimes: Floats, count: int) -> float:
    """Expected fastest runtime among the `count` kernels of highest score."""
    if count >= len(scores):
        return float(runtimes.min())
    cut = np.sort(scores)[len(scores) - count]
    above = scores > cut
    limit = float(runtimes[above].min()) if above.any() else math.inf
    return expected_minimum(np.sort(runtimes[scores == cut]), count - int(above.sum()), limit)


def regret_at(scores: npt.ArrayLike, runtimes: npt.ArrayLike, fraction: float = HEADLINE) -> float:
    """Best runtime among the top share by score over the pool's best runtime, minus one; NaN for an empty pool."""
    predicted, times = as_vectors(scores, runtimes)
    if not len(times):
        return float("nan")
    return best_runtime(predicted, times, measured(len(times), fraction)) / float(times.min()) - 1.0


def _regret(pool: Pool) -> float:
    return regret_at(pool.scores, pool.runtimes)


REGRET = Metric(
    name="regret_at_10", track=RANK, label="Regret at 10 %",
    meaning="How much slower than the pool's best the best kernel of the top 10 % is.",
    figure=mean_over_pools(_regret), better=Better.LOW, bounds=(0.0, None), shown=Shown.TERMINAL,
)  # fmt: skip


def within(scores: npt.ArrayLike, runtimes: npt.ArrayLike, distance: float) -> float:
    """Chance that a kernel at most this share slower than the best is among the top tenth."""
    _, times = as_vectors(scores, runtimes)
    far = (times > (1 + distance) * times.min()) + 1.0
    # Regret of a two-valued runtime is the chance that only far kernels were measured.
    return 1.0 - regret_at(scores, far, HEADLINE)


def _over_pools(rows: PoolRows, of_pool: Callable[[Pool], float]) -> Floats:
    return np.array([of_pool(pool) for pool in rows.pools])


WITHIN_05 = Metric(
    name="within_05_at_10", track=RANK, label="Within 5 % at 10 %",
    meaning="Share of pools whose top tenth holds a kernel within 5 % of the best.",
    figure=lambda bootstrap, rows: bootstrap.share(
        _over_pools(rows, lambda pool: within(pool.scores, pool.runtimes, 0.05))
    ),
    better=Better.HIGH, shown=Shown.BOARD,
)  # fmt: skip
WITHIN_20 = Metric(
    name="within_20_at_10", track=RANK, label="Within 20 % at 10 %",
    meaning="Share of pools whose top tenth holds a kernel within 20 % of the best.",
    figure=mean_over_pools(lambda pool: within(pool.scores, pool.runtimes, 0.2)), better=Better.HIGH,
    shown=Shown.TERMINAL,
)  # fmt: skip
MEDIAN_REGRET = Metric(
    name="median_regret_at_10", track=RANK, label="Median regret at 10 %",
    meaning="The regret that half of the pools do not exceed.",
    figure=lambda bootstrap, rows: bootstrap.median(_over_pools(rows, _regret)), better=Better.LOW,
    bounds=(0.0, None), shown=Shown.BOARD,
)  # fmt: skip
CAPPED_REGRET = Metric(
    name="capped_regret_at_10", track=RANK, label="Capped regret at 10 %",
    meaning=f"Mean regret, where no pool counts more than {CAP:g}, so that no single one decides.",
    figure=mean_over_pools(lambda pool: min(_regret(pool), CAP)), better=Better.LOW, bounds=(0.0, CAP),
    shown=Shown.BOARD,
)  # fmt: skip


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
    return (ends - (counts - 1) / 2)[places]


SPEARMAN = Metric(
    name="spearman", track=RANK, label="Spearman",
    meaning="Rank correlation of forecast and measured speed within a pool.",
    figure=mean_over_pools(lambda pool: spearman(pool.scores, pool.speeds)), better=Better.HIGH, bounds=(-1.0, 1.0),
    headline=True, shown=Shown.BOARD, ceiling=Ceiling.BINDING,
)  # fmt: skip
WIDE = 2.0
"""Slowest over fastest kernel of a pool from which regret says more than noise."""


WIDE_REGRET = Metric(
    name="wide_regret_at_10", track=RANK, label="Regret at 10 %, wide pools",
    meaning="How much slower than the pool's best the best kernel of the top 10 % is, over pools whose slowest kernel "
    "takes at least twice as long as the fastest.",
    figure=mean_over_pools(
        lambda pool: _regret(pool) if pool.runtimes.max() >= WIDE * pool.runtimes.min() else math.nan
    ),
    better=Better.LOW, bounds=(0.0, None), shown=Shown.BOARD,
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
    return above + tied * ((k - above.sum()) / tied.sum())


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

METRICS: tuple[Metric, ...] = (
    SPEARMAN, WIDE_REGRET, WITHIN_05, MEDIAN_REGRET, CAPPED_REGRET, REGRET, WITHIN_20, KENDALL, NDCG, TOP_10_RECALL,
)  # fmt: skip
"""In the order of every table, the headline first."""
