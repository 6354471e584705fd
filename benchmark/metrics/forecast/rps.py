"""Ranked probability score: squared distance of cumulative distributions, divided by 7 so that it runs from 0 to 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Booleans, Floats, check, mean
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows, mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import NUMBERS


def rps_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Ranked probability score of every row: Σ over the seven inner edges of (P(below) − [truth below])², over 7."""
    values, numbers = check(probabilities, bins)
    forecast_below = np.cumsum(values, axis=1)[:, :-1]
    truly_below = numbers[:, None] <= np.asarray(NUMBERS)[:-1]
    result: Floats = ((forecast_below - truly_below) ** 2).mean(axis=1)
    return result


def rps(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean ranked probability score; lower is better, and a certain miss by g bins costs g/7."""
    return mean(rps_rows(probabilities, bins))


RPS = Metric(
    name="rps", track=FORECAST, label="RPS",
    meaning="Squared distance between the cumulative forecast and the correct bin; a certain miss by g bins costs g/7.",
    figure=mean_over_pairs(rps_rows), better=Better.LOW, shown=Shown.TERMINAL, ceiling=Ceiling.BINDING, sliced=True,
)  # fmt: skip


def skill_over_problems(bootstrap: Bootstrap, rows: PairRows, kept: Booleans) -> Figure:
    """Skill of the rows kept over the prior of their own kinds; every problem counts alike."""
    given = np.where(kept, rps_rows(rows.probabilities, rows.bins), np.nan)
    prior = np.where(kept, rps_rows(rows.kind_prior, rows.bins), np.nan)
    return bootstrap.skill_of_clusters(given, prior)


SKILL = Metric(
    name="skill", track=FORECAST, label="Skill",
    meaning="Share of the RPS of each kind's own training prior that the forecast removes, kernel against kernel, "
    "every problem counting alike: 0 is no better, 1 is perfect.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, ~rows.level), better=Better.HIGH,
    bounds=(None, 1.0), headline=True, shown=Shown.BOARD, sliced=True,
)  # fmt: skip
LEVEL_SKILL = Metric(
    name="level_skill", track=FORECAST, label="Level skill",
    meaning="The same skill against the PyTorch reference: mostly how well the problem's level is known.",
    figure=lambda bootstrap, rows: skill_over_problems(bootstrap, rows, rows.level), better=Better.HIGH,
    bounds=(None, 1.0), shown=Shown.BOARD, sliced=True,
)  # fmt: skip
