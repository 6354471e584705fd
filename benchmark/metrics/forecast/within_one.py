"""Within one: how often the most probable bin is the correct one or its neighbour."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean
from kbench.benchmark.metrics.forecast.accuracy import modes
from kbench.benchmark.metrics.metric import Better, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import NUMBERS


def near(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is at most one bin off, tied modes drawn among at random."""
    values, numbers = check(probabilities, bins)
    tied = modes(values)
    close = np.abs(np.asarray(NUMBERS) - numbers[:, None]) <= 1
    result: Floats = (tied & close).sum(axis=1) / tied.sum(axis=1)
    return result


def within_one(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is at most one bin off."""
    return mean(near(probabilities, bins))


WITHIN_ONE = Metric(
    name="within_one",
    track=FORECAST,
    label="Within one bin",
    meaning="Share of pairs whose most probable bin is at most one bin off.",
    better=Better.HIGH,
    figure=mean_over_pairs(near),
    shown=Shown.BOARD,
    sliced=True,
)
