"""Accuracy: how often the most probable bin is the right one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, by_chunks, check, mean


def hits(columns: Floats, numbers: Ints) -> Floats:
    """One over the number of tied modes where the right bin is one of them, else 0."""
    largest, count = columns.max(axis=0), len(numbers)
    tied = np.add.reduce((columns == largest).view(np.uint8), axis=0)
    chosen = columns.ravel().take((numbers - 1) * count + np.arange(count))
    result: Floats = (chosen == largest) / tied
    return result


def _near_hits(columns: Floats, numbers: Ints) -> Floats:
    """Share of the tied modes that are at most one bin off."""
    modes = columns == columns.max(axis=0)
    padded = np.zeros((len(columns) + 2, len(numbers)), dtype=np.uint8)
    padded[1:-1] = modes
    rows = np.arange(len(numbers))
    right = padded[numbers - 1, rows] + padded[numbers, rows] + padded[numbers + 1, rows]
    result: Floats = right / modes.sum(axis=0, dtype=np.uint8)
    return result


def correct(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is right when tied modes are drawn among at random.

    Sharing ties keeps the uniform forecast at 1/8 whatever order the bins are stored in.
    """
    return by_chunks(hits, *check(probabilities, bins))


def near(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is at most one bin off, tied modes drawn among at random."""
    return by_chunks(_near_hits, *check(probabilities, bins))


def accuracy(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is right."""
    return mean(correct(probabilities, bins))
