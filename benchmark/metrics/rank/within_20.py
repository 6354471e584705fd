"""Within 20 %: how often the top tenth of a pool holds a kernel that is nearly the best."""

from __future__ import annotations

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rank.regret import regret_at
from kbench.benchmark.metrics.rows import mean_over_pools
from kbench.benchmark.tracks import RANK

NEAR = 0.2
"""The published claim is about finding a kernel within 20 % of the best."""


def within_20(scores: npt.ArrayLike, runtimes: npt.ArrayLike) -> float:
    """Chance that a kernel within 20 % of the best is among the top tenth."""
    _, times = as_vectors(scores, runtimes)
    far = (times > (1 + NEAR) * times.min()) + 1.0
    # Regret of a two-valued runtime is the chance that only far kernels were measured.
    return 1.0 - regret_at(scores, far, 0.1)


WITHIN_20 = Metric(
    name="within_20_at_10",
    track=RANK,
    label="Within 20 % at 10 %",
    meaning="Share of pools whose top tenth holds a kernel within 20 % of the best.",
    better=Better.HIGH,
    figure=mean_over_pools(lambda pool: within_20(pool.scores, pool.runtimes)),
    shown=Shown.TERMINAL,
)
