"""Best found: the best speedup a filtered search finds, relative to the pool's best."""

from __future__ import annotations

from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown, percent
from kbench.benchmark.metrics.search.replay import BUDGETS
from kbench.benchmark.tracks import SEARCH


def _metric(budget: float) -> Metric:
    return Metric(
        name=f"best_at_{percent(budget)}",
        track=SEARCH,
        label=f"Best found at {100 * budget:.0f} %",
        meaning=f"Best speedup found over the pool's best when {100 * budget:.0f} % of the pool is measured.",
        better=Better.HIGH,
        figure=lambda bootstrap, rows: bootstrap.mean(rows.best_share[budget]),
        shown=Shown.BOARD if budget == BUDGETS[0] else Shown.FILES,
        ceiling=Ceiling.NONE,
    )


BEST_FOUND = tuple(_metric(budget) for budget in BUDGETS)
