"""RPS skill: the share of the training prior's ranked probability score that a forecast removes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.metrics.forecast.rps import rps, rps_rows
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import PairRows
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import COUNT, NUMBERS


def rps_skill(probabilities: npt.ArrayLike, bins: npt.ArrayLike, prior: npt.ArrayLike) -> float:
    """1 − RPS of the forecast / RPS of the prior: 1 is perfect, 0 is the prior."""
    return 1.0 - rps(probabilities, bins) / rps(prior, bins)


def _figure(bootstrap: Bootstrap, rows: PairRows) -> Figure:
    prior_by_bin = rps_rows(np.tile(rows.prior, (COUNT, 1)), np.asarray(NUMBERS))
    return bootstrap.skill(rps_rows(rows.probabilities, rows.bins), prior_by_bin[rows.bins - 1])


RPS_SKILL = Metric(
    name="rps_skill",
    track=FORECAST,
    label="RPS skill",
    meaning="Share of the training prior's RPS that the forecast removes: 0 is no better, 1 is perfect.",
    better=Better.HIGH,
    bounds=(None, 1.0),
    figure=_figure,
    headline=True,
    shown=Shown.BOARD,
    sliced=True,
)
