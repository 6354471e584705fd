"""Rows of every track: a surrogate's forecasts beside the answers, and those of the oracle that sets the ceiling."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities
from kbench.benchmark.metrics.rank.regret import FRACTIONS, regret_at
from kbench.benchmark.metrics.rows import PairRows, Pool, PoolRows, SearchRows, ValidityRows
from kbench.benchmark.metrics.search import BUDGETS, replay
from kbench.benchmark.scoring.ceiling import oracle_forecasts, remeasured
from kbench.benchmark.surrogates.forecasts.table import ForecastTable
from kbench.benchmark.tasks.labels import PoolLabels
from kbench.benchmark.tasks.questions import Questions
from kbench.schemas import bins


def pair_rows(questions: Questions, table: ForecastTable) -> PairRows:
    """The forecasts of the pairs, one repeat after the other."""
    at = questions.pairs.query
    return PairRows(
        probabilities=table.probabilities[:, at].reshape(-1, table.probabilities.shape[-1]),
        confidence=table.confidence[:, at].reshape(-1),
        bins=np.tile(questions.pairs.bin, table.repeats),
        failed=table.failed[:, at].reshape(-1),
        prior=questions.prior,
        measure_seconds=questions.measure_seconds,
    )


def oracle_pair_rows(questions: Questions, seed: int) -> PairRows | None:
    """What a second measurement would forecast; None where no pair has an interval to draw it from."""
    pairs = questions.pairs
    if np.isnan(pairs.speedup_low).all():
        return None
    generator = np.random.default_rng((seed, 1))
    given = oracle_forecasts(pairs.speedup, pairs.speedup_low, pairs.speedup_high, generator)
    return PairRows.all_answered(given, pairs.bin, questions.prior, questions.measure_seconds)


LEAST_RANKED = 5
"""Fewest correct kernels of a pool worth ordering."""
LEAST_SEARCHED = 10
"""Fewest kernels of a pool worth searching."""
SCORE_DECIMALS = 9
"""Forecasts closer than a billionth of an octave count as equal."""
LEAST_P_VALID = 1e-6


def expected_log2_speedup(probabilities: Floats) -> Floats:
    """Mean log2 of the bins' representative speedups: a point forecast for surrogates that give none."""
    centers = np.log2([bins.center(number) for number in bins.NUMBERS])
    # Not a matrix product, which may add in another order in another row and tell equal forecasts apart.
    result: Floats = (as_probabilities(probabilities) * centers).sum(axis=1)
    return result


def pool_scores(pools: PoolLabels, table: ForecastTable, weigh_validity: bool) -> Floats:
    """log2 of the forecast speedup of every pool row, [repeats, rows]: the point forecast, else the mean over bins.

    Args:
        pools: the rows.
        table: the forecasts.
        weigh_validity: add log2 P(valid) where it was given: a search pays for failures, an order of correct kernels
            does not.
    """
    flat = table.probabilities[:, pools.query]
    means = expected_log2_speedup(flat.reshape(-1, flat.shape[-1])).reshape(flat.shape[:2])
    points = table.speedup[:, pools.query]
    scores = np.where(np.isnan(points), means, np.log2(np.where(np.isnan(points), 1.0, points)))
    if weigh_validity:
        chance = table.p_valid[:, pools.query]
        scores = scores + np.log2(np.maximum(np.where(np.isnan(chance), 1.0, chance), LEAST_P_VALID))
    # Logarithms of nearly equal forecasts differ in their last bits from processor to processor; so near is a tie.
    rounded: Floats = np.round(scores, SCORE_DECIMALS).astype(np.float64, copy=False)
    return rounded


def remeasured_scores(labels: PoolLabels, seed: int) -> Floats:
    """The order a second measurement would give: [1, rows]."""
    generator = np.random.default_rng((seed, 2))
    repeat = remeasured(labels.runtime_us, labels.runtime_low_us, labels.runtime_high_us, generator)
    result: Floats = -repeat[None, :]
    return result


def ranked_pools(labels: PoolLabels) -> list[Ints]:
    """Positions of the correct kernels of every pool that has enough of them."""
    pools = [rows[labels.valid[rows]] for rows in labels.pools()]
    return [rows for rows in pools if len(rows) >= LEAST_RANKED]


def regret_curve(labels: PoolLabels, scores: Floats) -> dict[float, float]:
    """Mean regret over pools and repeats by share of the pool measured; empty where no pool is large enough.

    Args:
        labels: the pool rows.
        scores: [repeats, rows], higher means faster.
    """
    rows = rank_rows(labels, ranked_pools(labels), scores)
    if not rows.pools:
        return {}
    return {
        share: float(np.mean([regret_at(pool.scores, pool.runtimes, share) for pool in rows.pools]))
        for share in FRACTIONS
    }


def searched_pools(labels: PoolLabels) -> list[Ints]:
    """Positions of all kernels, failed ones included, of every pool that is worth searching."""
    return [rows for rows in labels.pools() if len(rows) >= LEAST_SEARCHED and labels.valid[rows].any()]


def rank_rows(labels: PoolLabels, pools: list[Ints], scores: Floats) -> PoolRows:
    """One row per pool, one repeat after the other."""
    return PoolRows(tuple(Pool(one[rows], labels.runtime_us[rows]) for one in scores for rows in pools))


def search_rows(labels: PoolLabels, pools: list[Ints], scores: Floats, seed: int) -> SearchRows:
    """Replayed searches of every pool at every budget; all surrogates see the same orders."""
    speeds = np.where(labels.valid, np.nan_to_num(labels.speedup), 0.0)
    found = {
        budget: np.array(
            [
                replay(one[rows], speeds[rows], budget, np.random.default_rng((seed, index)))
                for one in scores
                for index, rows in enumerate(pools)
            ]
        )
        for budget in BUDGETS
    }
    return SearchRows({b: pair[:, 0] for b, pair in found.items()}, {b: pair[:, 1] for b, pair in found.items()})


def validity_rows(labels: PoolLabels, table: ForecastTable, valid_rate: float) -> ValidityRows:
    """P(valid) of every pool kernel, one repeat after the other."""
    valid = np.tile(labels.valid.astype(np.float64), table.repeats)
    return ValidityRows(table.p_valid[:, labels.query].reshape(-1), valid, valid_rate)
