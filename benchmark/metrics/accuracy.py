"""Accuracy: how often the most probable bin is the right one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean


def correct(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is right when tied modes are drawn among at random.

    Sharing ties keeps the uniform forecast at 1/8 whatever order the bins are stored in.
    """
    values, numbers = check(probabilities, bins)
    modes = values == values.max(axis=1, keepdims=True, initial=0.0)
    hits: Floats = modes[np.arange(len(values)), numbers - 1] / modes.sum(axis=1)
    return hits


def accuracy(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is right."""
    return mean(correct(probabilities, bins))
