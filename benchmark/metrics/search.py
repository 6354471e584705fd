"""Track search: a replayed search over the recorded kernels of a pool, with and without a surrogate as a filter.

Kernels of a pool come in random order, as a proposer would write them. The plain search measures the first b.
The filtered search looks at the first 4b, and measures the b it forecasts to be fastest. Failures cost a measurement
and bring nothing. Both see the same orders, so their ratio is paired.
"""

from __future__ import annotations

import math

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Metric, Shown, percent
from kbench.benchmark.metrics.rank import measured
from kbench.benchmark.metrics.rows import SearchRows
from kbench.benchmark.tracks import SEARCH

DRAW = 4
"""Candidates looked at for each one measured, as in the published search."""
BUDGETS = (0.1,)
"""Shares of the pool that are measured; the first is the headline's."""
ORDERS = 128


def drawn_orders(size: int, generator: np.random.Generator) -> Ints:
    """Random orders in which the kernels of a pool of this size come: [ORDERS, size]."""
    return generator.permuted(np.tile(np.arange(size), (ORDERS, 1)), axis=1)


def replay(scores: Floats, speeds: Floats, budget: float, orders: Ints) -> tuple[float, float]:
    """Log gain of the filtered search over the plain one, and the best it found relative to the pool's best.

    Args:
        scores: forecasts, higher means faster.
        speeds: measured speedups; 0 for a kernel that failed.
        budget: share of the pool that is measured.
        orders: in which the kernels come.
    """
    count = measured(len(speeds), budget)
    orders = orders[:, : DRAW * count]
    # A search that finds no correct kernel keeps the worst one there is, so that ratios stay finite.
    worst = speeds[speeds > 0].min()
    plain = np.maximum(speeds[orders[:, :count]].max(axis=1), worst)
    # The order itself is random, so a stable sort breaks ties at random.
    best = np.take_along_axis(orders, np.argsort(-scores[orders], axis=1, kind="stable")[:, :count], axis=1)
    filtered = np.maximum(speeds[best].max(axis=1), worst)
    return float(np.mean(np.log(filtered / plain))), float(np.mean(filtered / speeds.max()))


def gain_figure(bootstrap: Bootstrap, rows: SearchRows, budget: float) -> Figure:
    """Geometric mean over pools."""
    figure = bootstrap.mean(rows.log_gain[budget])
    return Figure(math.exp(figure.value), np.exp(figure.draws))


def attained_figure(bootstrap: Bootstrap, rows: SearchRows, budget: float) -> Figure:
    """Log gain over the oracle's, both summed over pools."""
    return bootstrap.share(rows.log_gain[budget], rows.oracle_log_gain[budget])


def _attained(budget: float) -> Metric:
    return Metric(
        name=f"attained_at_{percent(budget)}",
        track=SEARCH,
        label=f"Gain attained at {100 * budget:.0f} % budget",
        meaning=f"Share of the log gain that an oracle attains when {100 * budget:.0f} % of the pool is measured: 0 is "
        "search without a surrogate, 1 the oracle.",
        better=Better.HIGH,
        bounds=(None, 1.0),
        figure=lambda bootstrap, rows: attained_figure(bootstrap, rows, budget),
        headline=budget == BUDGETS[0],
        shown=Shown.BOARD if budget == BUDGETS[0] else Shown.FILES,
    )


ATTAINED = tuple(_attained(budget) for budget in BUDGETS)


def _gain(budget: float) -> Metric:
    return Metric(
        name=f"gain_at_{percent(budget)}",
        track=SEARCH,
        label=f"Gain at {100 * budget:.0f} % budget",
        meaning=f"Best speedup found over that of plain search when {100 * budget:.0f} % of the pool is measured.",
        better=Better.HIGH,
        bounds=(0.0, None),
        figure=lambda bootstrap, rows: gain_figure(bootstrap, rows, budget),
        shown=Shown.TERMINAL if budget == BUDGETS[0] else Shown.FILES,
    )


GAINS = tuple(_gain(budget) for budget in BUDGETS)


def _best_found(budget: float) -> Metric:
    return Metric(
        name=f"best_at_{percent(budget)}",
        track=SEARCH,
        label=f"Best found at {100 * budget:.0f} %",
        meaning=f"Best speedup found over the pool's best when {100 * budget:.0f} % of the pool is measured.",
        better=Better.HIGH,
        figure=lambda bootstrap, rows: bootstrap.mean(rows.best_share[budget]),
        shown=Shown.BOARD if budget == BUDGETS[0] else Shown.FILES,
    )


BEST_FOUND = tuple(_best_found(budget) for budget in BUDGETS)

METRICS: tuple[Metric, ...] = tuple(
    metric for at_budget in zip(ATTAINED, GAINS, BEST_FOUND, strict=True) for metric in at_budget
)
"""In the order of every table, the headline first."""
