"""Track search: does search find more at equal GPU budget? Replayed over recorded pools.

Kernels of a pool come in random order, as a proposer would write them. The plain search measures the first b.
The filtered search looks at the first 4b, and measures the b it forecasts to be fastest. Failures cost a measurement
and bring nothing. Both see the same orders, so their ratio is paired.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.scoring.rank import percent

DRAW = 4
"""Candidates looked at for each one measured, as in the published search."""
BUDGETS = (0.05, 0.1, 0.2)
ORDERS = 128
LEAST = 10
"""Fewest kernels of a pool worth searching."""


def replay(scores: Floats, speeds: Floats, budget: float, generator: np.random.Generator) -> tuple[float, float]:
    """Log gain of the filtered search over the plain one, and the best it found relative to the pool's best.

    Args:
        scores: forecasts, higher means faster.
        speeds: measured speedups; 0 for a kernel that failed.
        budget: share of the pool that is measured.
        generator: draws the orders.
    """
    measured = max(1, math.ceil(budget * len(speeds) - 1e-9))
    drawn = min(len(speeds), DRAW * measured)
    orders = generator.permuted(np.tile(np.arange(len(speeds)), (ORDERS, 1)), axis=1)[:, :drawn]
    # A search that finds no valid kernel keeps the worst one there is, so that ratios stay finite.
    worst = speeds[speeds > 0].min()
    plain = np.maximum(speeds[orders[:, :measured]].max(axis=1), worst)
    # The order itself is random, so a stable sort breaks ties at random.
    best = np.take_along_axis(orders, np.argsort(-scores[orders], axis=1, kind="stable")[:, :measured], axis=1)
    filtered = np.maximum(speeds[best].max(axis=1), worst)
    return float(np.mean(np.log(filtered / plain))), float(np.mean(filtered / speeds.max()))


def search_figures(
    pools: Sequence[Ints], problems: Sequence[str], scores: Floats, speeds: Floats, resamples: int, seed: int
) -> Mapping[str, Figure]:
    """Gain and best found at each budget, geometric and plain means over pools; the headline is the gain at 10 %."""
    if not pools:
        return {}
    bootstrap = Bootstrap(np.array(list(problems) * len(scores)), resamples, seed)
    figures: dict[str, Figure] = {}
    for budget in sorted(BUDGETS, key=lambda share: share != 0.1):
        results = [
            replay(one[rows], speeds[rows], budget, np.random.default_rng((seed, index)))
            for one in scores
            for index, rows in enumerate(pools)
        ]
        figures[f"gain_at_{percent(budget)}"] = bootstrap.exp_mean(np.array([gain for gain, _ in results]))
        figures[f"best_at_{percent(budget)}"] = bootstrap.mean(np.array([best for _, best in results]))
    return figures
