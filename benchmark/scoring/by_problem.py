"""Figures of one surrogate problem by problem: where it is good, without intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.metric import Metric
from kbench.benchmark.questions.questions import Questions
from kbench.benchmark.scoring.rows import pair_rows, pool_scores, rank_rows, ranked_pools
from kbench.benchmark.surrogates.forecasts import ForecastTable
from kbench.benchmark.tracks import pairs_only


@dataclasses.dataclass(frozen=True, slots=True)
class OfProblem:
    """One problem."""

    problem: str
    pairs: int
    pool: int
    """Kernels of its pool; 0 where none is ranked."""
    figures: tuple[float | None, ...]
    """Of the metrics asked for, in their order; None where one is not defined."""


def of_problems(
    questions: Questions, table: ForecastTable, pair_metrics: Sequence[Metric], pool_metrics: Sequence[Metric]
) -> list[OfProblem]:
    """Every problem that was asked about, by name."""
    rows, pairs, pools = pair_rows(questions, table), questions.pairs, questions.pools
    ranks = not pairs_only(questions.tracks) and len(pools) > 0
    scores = pool_scores(pools, table) if ranks else None
    orders = {str(pools.problem[pool[0]]): pool for pool in ranked_pools(pools)} if ranks else {}
    found = []
    for problem in sorted(set(pairs.problem.tolist()) | set(orders)):
        at = np.flatnonzero(np.tile(pairs.problem == problem, table.repeats))
        values = [_value(metric, rows.take(at), len(at)) for metric in pair_metrics]
        order = orders.get(problem)
        part = None if order is None or scores is None else rank_rows(pools, [order], scores)
        values += [None if part is None else _value(metric, part, table.repeats) for metric in pool_metrics]
        asked = int((pairs.problem == problem).sum())
        found.append(OfProblem(problem, asked, 0 if order is None else len(order), tuple(values)))
    return found


def _value(metric: Metric, rows: Any, count: int) -> float | None:
    figure = metric.figure(Bootstrap(np.zeros(count, dtype=np.int64), 0), rows) if count else None
    return None if figure is None or not np.isfinite(figure.value) else float(figure.value)
