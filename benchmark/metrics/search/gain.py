"""Gain: the best speedup found with the surrogate as a filter over the best found without, at an equal budget."""

from __future__ import annotations

import math

import numpy as np

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown, percent
from kbench.benchmark.metrics.rows import SearchRows
from kbench.benchmark.metrics.search.replay import BUDGETS
from kbench.benchmark.tracks import SEARCH


def gain_figure(bootstrap: Bootstrap, rows: SearchRows, budget: float) -> Figure:
    """Geometric mean over pools."""
    figure = bootstrap.mean(rows.log_gain[budget])
    return Figure(math.exp(figure.value), np.exp(figure.draws))


def _metric(budget: float) -> Metric:
    return Metric(
        name=f"gain_at_{percent(budget)}",
        track=SEARCH,
        label=f"Gain at {100 * budget:.0f} % budget",
        meaning=f"Best speedup found over that of plain search when {100 * budget:.0f} % of the pool is measured.",
        better=Better.HIGH,
        bounds=(0.0, None),
        figure=lambda bootstrap, rows: gain_figure(bootstrap, rows, budget),
        headline=budget == BUDGETS[0],
        shown={0.1: Shown.BOARD, 0.05: Shown.TERMINAL}.get(budget, Shown.FILES),
        ceiling=Ceiling.NONE,
    )


GAINS = tuple(_metric(budget) for budget in BUDGETS)
