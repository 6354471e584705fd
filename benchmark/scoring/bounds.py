"""Bounds of every metric: what looks at no kernel scores (floor), and what a second measurement scores (ceiling).

Each record's interval says how far a repeat on the same machine may fall from it; machines differ by a little more.
The oracle draws one repeat per record from both and forecasts the distribution that the repeat's own interval implies,
so it loses by measurement noise alone.
"""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.questions.labels import PoolLabels
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import (
    TrackRows,
    answered_pairs,
    kind_priors,
    rank_rows,
    ranked_pools,
)
from kbench.benchmark.tracks import PAIR_TRACKS, RANK
from kbench.schemas import bins

Z95 = 1.959963984540054


MACHINE_LOG_SIGMA = 0.008
"""Standard deviation between machines of the logarithm of a runtime or speedup, which intervals do not hold: with it,
3 % of repeated runtimes and 5 % of repeated speedups lie outside; without it, 15 % do (docs/results/intervals.md)."""


def log_sigma(low: Floats, high: Floats) -> Floats:
    """Standard deviation of the logarithm that a 95 % interval and another machine imply; 0 without an interval."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.log(high / low) / (2 * Z95)
    return np.where(np.isfinite(sigma), np.hypot(np.maximum(sigma, 0.0), MACHINE_LOG_SIGMA), 0.0)


def remeasured(value: Floats, low: Floats, high: Floats, generator: np.random.Generator) -> Floats:
    """One repeat of every measurement."""
    result: Floats = value * np.exp(log_sigma(low, high) * generator.standard_normal(len(value)))
    return result


def interval_distribution(speedup: Floats, sigma: Floats) -> Floats:
    """Probability of each bin when log speedup is normal around a measurement: [rows, 8]."""
    from scipy.special import ndtr

    # A difference of two measurements is wider than one by √2; the floor keeps an exact record from dividing by zero.
    width = np.maximum(sigma * np.sqrt(2.0), 1e-9)[:, None]
    below = ndtr((np.log(bins.EDGES)[None, :] - np.log(speedup)[:, None]) / width)
    edges = np.concatenate([np.zeros((len(speedup), 1)), below, np.ones((len(speedup), 1))], axis=1)
    # The last bits of the normal distribution depend on the processor, and ties between confidences depend on them.
    result: Floats = np.round(np.diff(edges, axis=1), 12).astype(np.float64, copy=False)
    return result


def oracle_forecasts(speedup: Floats, low: Floats, high: Floats, generator: np.random.Generator) -> Floats:
    """The oracle's distribution for every pair."""
    return interval_distribution(remeasured(speedup, low, high, generator), log_sigma(low, high))


def ceiling_rows(questions: Questions, seed: int) -> TrackRows:
    """What a second measurement would answer; pairs are left out where none has an interval to draw it from."""
    questions = questions.over_all_workloads()
    pairs, labels = questions.pairs, questions.pools
    found: TrackRows = {}
    if len(pairs) and not np.isnan(pairs.speedup_low).all():
        generator = np.random.default_rng((seed, 1))
        given = oracle_forecasts(pairs.speedup, pairs.speedup_low, pairs.speedup_high, generator)
        found |= dict.fromkeys(PAIR_TRACKS, answered_pairs(questions, given))
    return _asked(questions, found | _pools(labels, remeasured_scores(labels, seed)))


def floor_rows(questions: Questions) -> TrackRows:
    """The training frequencies of each kind, and every kernel of a pool alike."""
    questions = questions.over_all_workloads()
    found: TrackRows = {}
    if len(questions.pairs):
        found |= dict.fromkeys(PAIR_TRACKS, answered_pairs(questions, kind_priors(questions)))
    return _asked(questions, found | _pools(questions.pools, np.zeros((1, len(questions.pools)))))


def remeasured_scores(labels: PoolLabels, seed: int) -> Floats:
    """The order a second measurement would give, failed kernels last: [1, rows]."""
    generator = np.random.default_rng((seed, 2))
    repeat = remeasured(labels.runtime_us, labels.runtime_low_us, labels.runtime_high_us, generator)
    result: Floats = np.where(labels.valid, -repeat, -np.inf)[None, :]
    return result


def _pools(labels: PoolLabels, scores: Floats) -> TrackRows:
    pools = ranked_pools(labels)
    return {RANK.name: rank_rows(labels, pools, scores)} if pools else {}


def _asked(questions: Questions, found: TrackRows) -> TrackRows:
    return {track: rows for track, rows in found.items() if track in questions.tracks}
