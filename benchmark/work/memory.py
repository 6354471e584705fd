"""Memory requests of a warp: sectors in global memory, turns in shared memory, boxes of tensor-memory copies."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from kbench.benchmark.work.lanes import WARP, Array

SECTOR = 32
"""Bytes that L1 and L2 move at least."""
BANKS = 32
WORD = 4
MOST_LINES = 1 << 16
"""Sectors that a footprint remembers."""


def sectors(addresses: Array, nbytes: int) -> set[int]:
    """Distinct sectors that the lanes of a request touch."""
    touched: set[int] = set((addresses // SECTOR).tolist())
    for start in range(SECTOR, nbytes, SECTOR):
        touched.update(((addresses + start) // SECTOR).tolist())
    touched.update(((addresses + nbytes - 1) // SECTOR).tolist())
    return touched


def wavefronts(addresses: Array, nbytes: int) -> int:
    """Turns of a shared request: words of different rows in one bank take a turn each.

    Wide accesses are served for part of a warp at a time: 16 lanes for 8 bytes, 8 for 16.
    """
    together = max(1, min(WARP, BANKS * WORD // max(nbytes, WORD)))
    turns = 0
    for start in range(0, len(addresses), together):
        first = np.unique(addresses[start : start + together] // WORD)
        words = (
            np.unique(np.concatenate([first + n for n in range(max(1, nbytes // WORD))])) if nbytes > WORD else first
        )
        turns += int(np.bincount(words % BANKS).max(initial=1))
    return max(turns, 1)


@dataclasses.dataclass(slots=True)
class Footprint:
    """Sectors that loads through L1 have touched: what comes again is served there."""

    touched: set[int] = dataclasses.field(default_factory=set)

    def fresh(self, request: set[int]) -> int:
        """How many sectors of a request are new; they are remembered."""
        new = len(request - self.touched)
        if new and len(self.touched) < MOST_LINES:
            self.touched |= request
        return new


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """What one transfer through a tensor map moves."""

    extents: tuple[int, ...]
    """Elements along each dimension, innermost first."""
    element_bytes: int

    @property
    def nbytes(self) -> int:
        """Bytes of the whole box."""
        return math.prod(self.extents) * self.element_bytes
