"""Rows of every track: a surrogate's forecasts beside the answers."""

from __future__ import annotations

import dataclasses

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints, as_probabilities, encode
from kbench.benchmark.metrics.rank import FRACTIONS, regret_at
from kbench.benchmark.metrics.rows import FULL, PairRows, Pool, PoolRows
from kbench.benchmark.questions.asked import ONE_WORKLOAD
from kbench.benchmark.questions.labels import PoolLabels
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import PAIR_TRACKS, RANK
from kbench.schemas import PairKind, bins

TrackRows = dict[str, PairRows | PoolRows]
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
        full=FULL,
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
SCORE_DECIMALS = 9
"""Forecasts closer than a billionth of an octave count as equal."""


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


def pool_scores(pools: PoolLabels, table: ForecastTable) -> Floats:
    """log2 of the forecast speedup of every pool row, [repeats, rows]: the point forecast, else the mean over bins."""
    flat = table.probabilities[:, pools.query]
    points = table.speedup[:, pools.query]
    return rank_scores(flat.reshape(-1, flat.shape[-1]), points.reshape(-1)).reshape(points.shape)


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


def rank_rows(labels: PoolLabels, pools: list[Ints], scores: Floats) -> PoolRows:
    """One row per pool, one repeat after the other."""
    return PoolRows(tuple(Pool(one[rows], labels.runtime_us[rows]) for one in scores for rows in pools))


def surrogate_rows(questions: Questions, table: ForecastTable) -> TrackRows:
    """Rows of every track that the questions ask and can be scored."""
    labels = questions.pools
    found: TrackRows = {}
    if len(questions.pairs):
        found |= dict.fromkeys(PAIR_TRACKS, pair_rows(questions.over_all_workloads(), table))
    if RANK.name in questions.tracks and (pools := ranked_pools(labels)):
        found[RANK.name] = rank_rows(labels, pools, pool_scores(labels, table))
    return {track: found[track] for track in questions.tracks if track in found}
