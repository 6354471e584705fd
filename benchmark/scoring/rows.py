"""Rows of every track: a surrogate's forecasts beside the answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities, encode
from kbench.benchmark.metrics.rank import FRACTIONS, regret_at
from kbench.benchmark.metrics.rows import FULL, PairRows, Pool, PoolRows, SearchRows, ValidityRows
from kbench.benchmark.metrics.search import BUDGETS, drawn_orders, replay
from kbench.benchmark.questions.asked import ONE_WORKLOAD
from kbench.benchmark.questions.labels import PoolLabels
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import PAIR_TRACKS, RANK, SEARCH, VALIDITY
from kbench.schemas import PairKind, bins

TrackRows = dict[str, PairRows | PoolRows | SearchRows | ValidityRows]
"""By track."""


def pair_rows(questions: Questions, table: ForecastTable) -> PairRows:
    """The forecasts of the pairs, one repeat after the other."""
    at = questions.pairs.query
    return dataclasses.replace(
        answered_pairs(questions, table.probabilities[:, at].reshape(-1, bins.COUNT), table.speedup[:, at].reshape(-1)),
        confidence=table.confidence[:, at].reshape(-1),
        failed=table.failed[:, at].reshape(-1),
    )


def answered_pairs(questions: Questions, probabilities: Floats, points: Floats | None = None) -> PairRows:
    """The pairs with these distributions, [repeats × pairs, 8], each as sure as its most probable bin.

    Args:
        questions: what was asked.
        probabilities: the distributions.
        points: forecast speedups; NaN, or nothing at all, where none was given.
    """
    pairs = questions.pairs
    repeats = len(probabilities) // max(len(pairs), 1)
    return PairRows(
        probabilities=probabilities,
        confidence=probabilities.max(axis=1),
        bins=np.tile(pairs.bin, repeats),
        failed=np.zeros(len(probabilities), dtype=np.bool_),
        kind_prior=np.tile(kind_priors(questions), (repeats, 1)),
        level=np.tile(pairs.kind == PairKind.REFERENCE.value, repeats),
        edit=np.tile(pairs.relation == PairKind.PARENT_EDIT.value, repeats),
        one_workload=np.tile(pairs.relation == ONE_WORKLOAD, repeats),
        cell=np.tile(encode(pairs.author + " " + pairs.backend)[1], repeats),
        speedup=np.tile(pairs.speedup, repeats),
        score=rank_scores(probabilities, np.full(len(probabilities), np.nan) if points is None else points),
        measure_seconds=questions.measure_seconds,
        full=FULL if questions.benchmark == 3 else 1,
        repeats=repeats,
    )


def kind_priors(questions: Questions) -> Floats:
    """The training frequencies of every pair's kind: [pairs, 8]."""
    names, index = np.unique(questions.pairs.kind.astype(str), return_inverse=True)
    table = np.array([questions.kind_priors[name] for name in names]).reshape(-1, bins.COUNT)
    result: Floats = table[index]
    return result


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


def rank_scores(probabilities: Floats, points: Floats) -> Floats:
    """What orders candidates, whichever track asks: log2 of the forecast speedup.

    That is the point forecast where one was given, and otherwise the mean of log2 over the bins' centers.
    """
    given = ~np.isnan(points)
    scores = np.where(given, np.log2(np.where(given, points, 1.0)), expected_log2_speedup(probabilities))
    # Logarithms of nearly equal forecasts differ in their last bits from processor to processor; so near is a tie.
    rounded: Floats = np.round(scores, SCORE_DECIMALS).astype(np.float64, copy=False)
    return rounded


def pool_scores(pools: PoolLabels, table: ForecastTable, weigh_validity: bool) -> Floats:
    """log2 of the forecast speedup of every pool row, [repeats, rows]: the point forecast, else the mean over bins.

    Args:
        pools: the rows.
        table: the forecasts.
        weigh_validity: add log2 P(valid) where it was given: a search pays for failures, an order of correct kernels
            does not.
    """
    flat = table.probabilities[:, pools.query]
    points = table.speedup[:, pools.query]
    scores = rank_scores(flat.reshape(-1, flat.shape[-1]), points.reshape(-1)).reshape(points.shape)
    if not weigh_validity:
        return scores
    chance = table.p_valid[:, pools.query]
    weighed = scores + np.log2(np.maximum(np.where(np.isnan(chance), 1.0, chance), LEAST_P_VALID))
    rounded: Floats = np.round(weighed, SCORE_DECIMALS).astype(np.float64, copy=False)
    return rounded


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
    timed = _speeds(labels) > 0
    return [rows for rows in labels.pools() if len(rows) >= LEAST_SEARCHED and timed[rows].any()]


def _speeds(labels: PoolLabels) -> Floats:
    """Speed of every kernel, 0 for one that failed or was not timed.

    It is the speedup; in a pool whose kernels have none, as in imports, the inverse of the runtime, which orders and
    divides alike.
    """
    speeds = np.where(labels.valid, np.nan_to_num(labels.speedup), 0.0)
    for rows in labels.pools():
        if np.isnan(labels.speedup[rows][labels.valid[rows]]).any():
            inverse = np.nan_to_num(1.0 / labels.runtime_us[rows])
            speeds[rows] = np.where(labels.valid[rows], inverse, 0.0)
    return speeds


def rank_rows(labels: PoolLabels, pools: list[Ints], scores: Floats) -> PoolRows:
    """One row per pool, one repeat after the other."""
    return PoolRows(tuple(Pool(one[rows], labels.runtime_us[rows]) for one in scores for rows in pools))


def search_rows(labels: PoolLabels, pools: list[Ints], scores: Floats, seed: int) -> SearchRows:
    """Replayed searches of every pool at every budget; all surrogates see the same orders."""
    speeds = _speeds(labels)

    def replayed(index: int, rows: Ints) -> list[list[tuple[float, float]]]:
        """Log gain and share of the best by budget, of every repeat and then of the oracle."""
        orders = drawn_orders(len(rows), np.random.default_rng((seed, index)))
        return [[replay(one[rows], speeds[rows], budget, orders) for one in (*scores, speeds)] for budget in BUDGETS]

    found = np.array([replayed(index, rows) for index, rows in enumerate(pools)])
    by_budget = {budget: found[:, at].transpose(2, 1, 0) for at, budget in enumerate(BUDGETS)}
    return SearchRows(
        log_gain={budget: gain[:-1].ravel() for budget, (gain, _) in by_budget.items()},
        best_share={budget: best[:-1].ravel() for budget, (_, best) in by_budget.items()},
        oracle_log_gain={budget: np.tile(gain[-1], len(scores)) for budget, (gain, _) in by_budget.items()},
    )


def pool_track_rows(
    labels: PoolLabels, ranked: Floats, searched: Floats, seed: int, tracks: Collection[str]
) -> TrackRows:
    """Rows of the tracks rank and search, where they are asked and a pool is large enough.

    Args:
        labels: the pool rows.
        ranked: [repeats, rows], what orders the correct kernels.
        searched: the same for a search, which pays for failures.
        seed: of the replayed searches.
        tracks: those asked.
    """
    found: TrackRows = {}
    if RANK.name in tracks and (pools := ranked_pools(labels)):
        found[RANK.name] = rank_rows(labels, pools, ranked)
    if SEARCH.name in tracks and (pools := searched_pools(labels)):
        found[SEARCH.name] = search_rows(labels, pools, searched, seed)
    return found


def surrogate_rows(questions: Questions, table: ForecastTable, seed: int) -> TrackRows:
    """Rows of every track that the questions ask and can be scored."""
    labels = questions.pools
    found: TrackRows = {}
    if len(questions.pairs):
        found |= dict.fromkeys(PAIR_TRACKS, pair_rows(questions.over_all_workloads(), table))
    if len(labels) and not set(questions.tracks) <= set(PAIR_TRACKS):
        ranked, searched = (pool_scores(labels, table, weigh_validity=weighed) for weighed in (False, True))
        found |= pool_track_rows(labels, ranked, searched, seed, questions.tracks)
        found[VALIDITY.name] = stated_validity(labels, table.p_valid[:, labels.query], questions.valid_rate)
    return {track: found[track] for track in questions.tracks if track in found}


def stated_validity(labels: PoolLabels, p_valid: Floats, valid_rate: float) -> ValidityRows:
    """Rows of [repeats, kernels] of P(valid), for the kernels that are asked about."""
    asked, repeats = labels.take(labels.asked_valid), len(p_valid)
    valid, proposer = asked.valid.astype(np.float64), encode(asked.proposer)[1]
    stated = p_valid[:, labels.asked_valid].reshape(-1)
    return ValidityRows(stated, np.tile(valid, repeats), np.tile(proposer, repeats), valid_rate)
