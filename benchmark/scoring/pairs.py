"""Rows of the tracks that ask about pairs: a surrogate's forecasts, and those of the oracle that sets the ceiling."""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.scoring.ceiling import oracle_forecasts
from kbench.benchmark.surrogates.forecasts.table import ForecastTable
from kbench.benchmark.tasks.questions import Questions


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
