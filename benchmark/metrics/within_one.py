"""Within one: how often the most probable bin is right or next to right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean


def near(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is at most one bin off, tied modes drawn among at random."""
    values, numbers = check(probabilities, bins)
    modes = values == values.max(axis=1, keepdims=True, initial=0.0)
    close = np.abs(np.arange(1, values.shape[1] + 1) - numbers[:, None]) <= 1
    hits: Floats = (modes & close).sum(axis=1) / modes.sum(axis=1)
    return hits


def within_one(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is at most one bin off."""
    return mean(near(probabilities, bins))
