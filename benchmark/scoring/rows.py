"""Rows of every track: forecasts beside the answers, what looks at no kernel (floor), a second measurement (ceiling).

Each record's interval says how far a repeat on the same machine may fall from it; machines differ by a little more.
The oracle draws one repeat per record from both and forecasts the distribution that the repeat's own interval implies,
so it loses by measurement noise alone.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from kbench.benchmark.metrics.arrays import LOG2_CENTERS, Floats, Ints, as_probabilities, encode
from kbench.benchmark.metrics.metric import FULL, PairRows, Pool, PoolRows
from kbench.benchmark.metrics.rank import FRACTIONS, regret_at
from kbench.benchmark.questions.asked import ONE_WORKLOAD
from kbench.benchmark.questions.questions import PoolLabels, Questions
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import PAIR_TRACKS, RANK
from kbench.schemas import PairKind, bins

TrackRows = dict[str, PairRows | PoolRows]
"""By track."""
Z95 = 1.959963984540054


MACHINE_LOG_SIGMA = 0.008
"""Standard deviation between machines of the logarithm of a runtime or speedup, which intervals do not hold: with it,
3 % of repeated runtimes and 5 % of repeated speedups lie outside; without it, 15 % do (docs/results/intervals.md)."""


def pair_rows(questions: Questions, table: ForecastTable) -> PairRows:
    """The forecasts of the pairs, one repeat after the other."""
    at = questions.pairs.query
    return dataclasses.replace(
        answered_pairs(questions, table.probabilities[:, at].reshape(-1, bins.COUNT), table.speedup[:, at].reshape(-1)),
        confidence=table.confidence[:, at].reshape(-1),
        failed=table.failed[:, at].reshape(-1),
    )


def answered_pairs(questions: Questions, probabilities: Floats, points: Floats | None = None) -> PairRows:
    """The pairs with these distributions, [repeats × pairs, 8], each as sure as its most probable bin."""
    pairs = questions.pairs
    repeats = len(probabilities) // max(len(pairs), 1)
    backends, backend = encode(pairs.backend)
    # Bin by bin: eight long columns add up faster than a million short rows.
    probabilities = np.asfortranarray(probabilities)
    return PairRows(
        probabilities=probabilities,
        confidence=probabilities.max(axis=1),
        bins=np.tile(pairs.bin, repeats),
        failed=np.zeros(len(probabilities), dtype=np.bool_),
        kind_prior=kind_priors(questions, repeats),
        level=np.tile(pairs.kind == PairKind.REFERENCE.value, repeats),
        edit=np.tile(pairs.relation == PairKind.PARENT_EDIT.value, repeats),
        one_workload=np.tile(pairs.relation == ONE_WORKLOAD, repeats),
        cell=np.tile(encode(pairs.author)[1] * len(backends) + backend, repeats),
        speedup=np.tile(pairs.speedup, repeats),
        score=rank_scores(probabilities, np.full(len(probabilities), np.nan) if points is None else points),
        measure_seconds=questions.measure_seconds,
        full=FULL,
        repeats=repeats,
    )


def kind_priors(questions: Questions, repeats: int = 1) -> Floats:
    """The training frequencies of every pair's kind, one repeat after the other: [rows, 8], stored bin by bin."""
    names, index = encode(questions.pairs.kind)
    table = np.array([questions.kind_priors[name] for name in names]).reshape(-1, bins.COUNT)
    return np.take(table.T, np.tile(index, repeats), axis=1).T


LEAST_RANKED = 5
"""Fewest correct kernels of a pool worth ordering."""
SCORE_DECIMALS = 9
"""Forecasts closer than a billionth of an octave count as equal."""


def expected_log2_speedup(probabilities: Floats) -> Floats:
    """Mean log2 of the bins' representative speedups: a point forecast for surrogates that give none."""
    # Not a matrix product, which may add in another order in another row and tell equal forecasts apart.
    return (as_probabilities(probabilities) * LOG2_CENTERS).sum(axis=1)


def rank_scores(probabilities: Floats, points: Floats) -> Floats:
    """What orders candidates, whichever track asks: log2 of the forecast speedup.

    That is the point forecast where one was given, and otherwise the mean of log2 over the bins' centers.
    """
    has_point = ~np.isnan(points)
    scores = np.where(has_point, np.log2(np.where(has_point, points, 1.0)), expected_log2_speedup(probabilities))
    # Logarithms of nearly equal forecasts differ in their last bits from processor to processor; so near is a tie.
    return np.round(scores, SCORE_DECIMALS).astype(np.float64, copy=False)


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
    """Mean regret over pools and repeats by share of the pool measured; empty where no pool is large enough."""
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


def track_rows(questions: Questions, pairs: PairRows | None, scores: Floats) -> TrackRows:
    """Rows of every track that the questions ask and that can be scored; of pools by scores [repeats, rows]."""
    rows: TrackRows = {} if pairs is None else dict.fromkeys(PAIR_TRACKS, pairs)
    if pools := ranked_pools(questions.pools):
        rows[RANK.name] = rank_rows(questions.pools, pools, scores)
    return {track: of_track for track, of_track in rows.items() if track in questions.tracks}


def surrogate_rows(questions: Questions, table: ForecastTable) -> TrackRows:
    """What a surrogate answers, track by track in the questions' order."""
    pairs = pair_rows(questions.over_all_workloads(), table) if len(questions.pairs) else None
    rows = track_rows(questions, pairs, pool_scores(questions.pools, table))
    return {track: rows[track] for track in questions.tracks if track in rows}


def log_sigma(low: Floats, high: Floats) -> Floats:
    """Standard deviation of the logarithm that a 95 % interval and another machine imply; 0 without an interval."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.log(high / low) / (2 * Z95)
    return np.where(np.isfinite(sigma), np.hypot(np.maximum(sigma, 0.0), MACHINE_LOG_SIGMA), 0.0)


def remeasured(value: Floats, low: Floats, high: Floats, generator: np.random.Generator) -> Floats:
    """One repeat of every measurement."""
    return value * np.exp(log_sigma(low, high) * generator.standard_normal(len(value)))


def interval_distribution(speedup: Floats, sigma: Floats) -> Floats:
    """Probability of each bin when log speedup is normal around a measurement: [rows, 8], stored bin by bin."""
    from scipy.special import ndtr

    # A difference of two measurements is wider than one by √2; the floor keeps an exact record from dividing by zero.
    width = np.maximum(sigma * np.sqrt(2.0), 1e-9)
    below = np.zeros((bins.COUNT + 1, len(speedup)))
    below[1:-1] = ndtr((np.log(bins.EDGES)[:, None] - np.log(speedup)) / width)
    below[-1] = 1.0
    # The last bits of the normal distribution depend on the processor, and ties between confidences depend on them.
    return np.round(np.diff(below, axis=0).T, 12).astype(np.float64, copy=False)


def ceiling_rows(questions: Questions, seed: int) -> TrackRows:
    """What a second measurement would answer; pairs are left out where none has an interval to draw it from."""
    questions = questions.over_all_workloads()
    pairs, labels = questions.pairs, questions.pools
    answered = None
    if len(pairs) and not np.isnan(pairs.speedup_low).all():
        ends = (pairs.speedup_low, pairs.speedup_high)
        repeat = remeasured(pairs.speedup, *ends, np.random.default_rng((seed, 1)))
        answered = answered_pairs(questions, interval_distribution(repeat, log_sigma(*ends)))
    generator = np.random.default_rng((seed, 2))
    repeat = remeasured(labels.runtime_us, labels.runtime_low_us, labels.runtime_high_us, generator)
    # The order that a second measurement would give, failed kernels last.
    return track_rows(questions, answered, np.where(labels.valid, -repeat, -np.inf)[None, :])


def floor_rows(questions: Questions) -> TrackRows:
    """The training frequencies of each kind, and every kernel of a pool alike."""
    questions = questions.over_all_workloads()
    pairs = answered_pairs(questions, kind_priors(questions)) if len(questions.pairs) else None
    return track_rows(questions, pairs, np.zeros((1, len(questions.pools))))
