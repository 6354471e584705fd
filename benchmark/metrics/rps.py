"""Ranked probability score: squared distance of cumulative distributions, divided by 7 so that it runs from 0 to 1."""

from __future__ import annotations

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean
from kbench.schemas.bins import COUNT


def rps_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Ranked probability score of every row."""
    from scoringrules import rps_score

    values, numbers = check(probabilities, bins)
    result: Floats = rps_score(numbers, values) / (COUNT - 1)
    return result


def rps(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean ranked probability score; lower is better, and a miss by g bins with certainty costs g/7."""
    return mean(rps_rows(probabilities, bins))


def rps_skill(probabilities: npt.ArrayLike, bins: npt.ArrayLike, prior: npt.ArrayLike) -> float:
    """Share of the prior's ranked probability score that the forecast removes: 1 is perfect, 0 is the prior."""
    return 1.0 - rps(probabilities, bins) / rps(prior, bins)
