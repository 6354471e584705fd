"""What a query's known kernels say: questions about them, and forecasts moved to the level they show."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import LOG2_CENTERS, Floats
from kbench.schemas import Forecast, PairKind, Query, bins
from kbench.schemas.ids import content_hash

LOG_EDGES = np.log2(np.asarray(bins.EDGES))
OUTER = 2.0
"""Octaves over which an outermost bin spreads."""
GRID = np.concatenate([[LOG_EDGES[0] - OUTER], LOG_EDGES, [LOG_EDGES[-1] + OUTER]])
DOUBT = 0.5
"""Imagined known kernels that lie on the forecast: one kernel alone does not settle the level."""
SPREAD = 0.5
"""Share of a forecast's variance that is expected to remain once the level is known."""
SPREAD_DOUBT = 4.0
"""Imagined known kernels that show this spread."""
FLOOR = 1e-3


def known_queries(query: Query) -> list[Query]:
    """The questions about a reference query's known kernels: how much faster than the reference is each?"""
    if query.kind is not PairKind.REFERENCE:
        return []
    return [
        dataclasses.replace(
            query,
            query_id=content_hash("known", query.gpu, query.problem_id, query.workloads_json, kernel.source),
            backend=kernel.backend,
            candidate_source=kernel.source,
            known=(),
        )
        for kernel in query.known
    ]


def at_known_level(forecast: Callable[[Sequence[Query]], list[Forecast]], queries: Sequence[Query]) -> list[Forecast]:
    """Forecasts, those against the reference moved by how far off the same forecaster is on the known kernels."""
    about = {known.query_id: known for query in queries for known in known_queries(query)}
    forecasts = forecast([*queries, *about.values()])
    own, measured = forecasts[: len(queries)], {each.query_id: each for each in forecasts[len(queries) :]}
    moved = []
    for query, answer in zip(queries, own, strict=True):
        about_known = [measured[each.query_id] for each in known_queries(query)]
        moved.append(_moved(answer, about_known, [kernel.speedup for kernel in query.known]) if about_known else answer)
    return moved


def _moved(answer: Forecast, asked: Sequence[Forecast], speedups: Sequence[float]) -> Forecast:
    shares_of_known = np.array([each.probabilities for each in asked], dtype=np.float64)
    means = (shares_of_known * LOG2_CENTERS).sum(axis=1)
    variances = (shares_of_known * (LOG2_CENTERS - means[:, None]) ** 2).sum(axis=1)
    errors = np.log2(speedups) - means
    count = len(errors)
    shift = float(errors.sum() / (count + DOUBT))
    scatter = float(((errors - errors.mean()) ** 2).sum() / max(variances.mean(), FLOOR))
    remaining = (scatter + SPREAD_DOUBT * SPREAD) / (count - 1 + SPREAD_DOUBT) * (1 + 1 / (count + DOUBT))
    shares = _stretched(np.asarray(answer.probabilities, dtype=np.float64), shift, float(np.sqrt(min(remaining, 1.0))))
    # The point stays: it orders a pool, whose queries name different kernels and would be moved by different steps.
    return dataclasses.replace(answer, probabilities=tuple(shares.tolist()))


def _stretched(given: Floats, shift: float, factor: float) -> Floats:
    """The distribution moved by `shift` octaves, its distances from the mean times `factor`."""
    below = np.concatenate([[0.0], np.cumsum(given)])
    mean = float((given * LOG2_CENTERS).sum())
    edges = np.interp(mean + (LOG_EDGES - shift - mean) / factor, GRID, below / below[-1])
    shares = np.maximum(np.diff(np.concatenate([[0.0], edges, [1.0]])), 0.0) + FLOOR
    return shares / shares.sum()
