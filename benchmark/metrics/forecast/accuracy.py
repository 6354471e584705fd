"""Accuracy: how often the most probable bin is the right one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, by_chunks, check, given_to, mean, row_max
from kbench.schemas.bins import COUNT

BYTES = np.uint64(0x0101010101010101)
"""Times this, the bytes of a word add up in its highest one."""
NEIGHBOURS = np.array(
    [sum(1 << 8 * (b - 1) for b in range(max(n - 1, 1), min(n + 1, COUNT) + 1)) for n in range(COUNT + 1)],
    dtype=np.uint64,
)
"""The bytes of bin n and of the bins beside it."""


def _modes(values: Floats, largest: Floats) -> npt.NDArray[np.uint64]:
    """Which bins of every row are its modes: a byte a bin, the first bin lowest."""
    return np.equal(values, largest[:, None]).view("<u8")[:, 0]


def _how_many(modes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (modes * BYTES) >> np.uint64(56)


def hits(values: Floats, numbers: Ints) -> Floats:
    """One over the number of tied modes where the right bin is one of them, else 0."""
    largest = row_max(values)
    result: Floats = (given_to(values, numbers) == largest) / _how_many(_modes(values, largest))
    return result


def _near_hits(values: Floats, numbers: Ints) -> Floats:
    """Share of the tied modes that are at most one bin off."""
    modes = _modes(values, row_max(values))
    result: Floats = _how_many(modes & NEIGHBOURS.take(numbers)) / _how_many(modes)
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
