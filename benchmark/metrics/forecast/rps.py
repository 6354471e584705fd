"""Ranked probability score: squared distance of cumulative distributions, divided by 7 so that it runs from 0 to 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean
from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows, mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import COUNT, NUMBERS


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


def rps_skill(probabilities: npt.ArrayLike, bins: npt.ArrayLike, prior: npt.ArrayLike) -> float:
    """1 − RPS of the forecast / RPS of the prior: 1 is perfect, 0 is the prior."""
    return 1.0 - rps(probabilities, bins) / rps(prior, bins)


def _figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    prior_by_bin = rps_rows(np.tile(rows.prior, (COUNT, 1)), np.asarray(NUMBERS))
    return bootstrap.skill(rps_rows(rows.probabilities, rows.bins), prior_by_bin[rows.bins - 1])


RPS_SKILL = Metric(
    name="rps_skill", track=FORECAST, label="RPS skill",
    meaning="Share of the training prior's RPS that the forecast removes: 0 is no better, 1 is perfect.",
    figure=_figure, better=Better.HIGH, bounds=(None, 1.0), headline=True, shown=Shown.BOARD, sliced=True,
)  # fmt: skip
