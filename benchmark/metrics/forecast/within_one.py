"""Within one: how often the most probable bin is right or next to right."""

from __future__ import annotations

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import mean
from kbench.benchmark.metrics.forecast.accuracy import near


def within_one(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is at most one bin off."""
    return mean(near(probabilities, bins))
