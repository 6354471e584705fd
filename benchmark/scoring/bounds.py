"""Ceiling and floor of every track: what a second measurement scores, and what looking at no kernel scores."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.scoring.ceiling import oracle_forecasts, remeasured
from kbench.benchmark.scoring.rows import (
    TrackRows,
    answered_pairs,
    kind_priors,
    pool_track_rows,
    stated_validity,
)
from kbench.benchmark.tasks.labels import PoolLabels
from kbench.benchmark.tasks.questions import Questions
from kbench.benchmark.tracks import PAIR_TRACKS, VALIDITY


def ceiling_rows(questions: Questions, seed: int) -> TrackRows:
    """What a second measurement would answer; pairs are left out where none has an interval to draw it from."""
    pairs, labels = questions.pairs, questions.pools
    found: TrackRows = {}
    if len(pairs) and not np.isnan(pairs.speedup_low).all():
        generator = np.random.default_rng((seed, 1))
        given = oracle_forecasts(pairs.speedup, pairs.speedup_low, pairs.speedup_high, generator)
        found |= dict.fromkeys(PAIR_TRACKS, answered_pairs(questions, given))
    scores = remeasured_scores(labels, seed)
    valid = labels.valid.astype(np.float64)[None]
    return _asked(questions, found | _pools(questions, scores, valid, seed))


def floor_rows(questions: Questions, seed: int) -> TrackRows:
    """The training frequencies of each kind, and every kernel of a pool alike."""
    found: TrackRows = {}
    if len(questions.pairs):
        found |= dict.fromkeys(PAIR_TRACKS, answered_pairs(questions, kind_priors(questions)))
    alike = np.zeros((1, len(questions.pools)))
    return _asked(questions, found | _pools(questions, alike, np.full_like(alike, np.nan), seed))


def remeasured_scores(labels: PoolLabels, seed: int) -> Floats:
    """The order a second measurement would give, failed kernels last: [1, rows]."""
    generator = np.random.default_rng((seed, 2))
    repeat = remeasured(labels.runtime_us, labels.runtime_low_us, labels.runtime_high_us, generator)
    result: Floats = np.where(labels.valid, -repeat, -np.inf)[None, :]
    return result


def _pools(questions: Questions, scores: Floats, p_valid: Floats, seed: int) -> TrackRows:
    rows = pool_track_rows(questions.pools, scores, scores, seed)
    if not len(questions.pools):
        return rows
    return rows | {VALIDITY.name: stated_validity(questions.pools, p_valid, questions.valid_rate)}


def _asked(questions: Questions, found: TrackRows) -> TrackRows:
    return {track: rows for track, rows in found.items() if track in questions.tracks}
