"""Memory requests of a warp: sectors in global memory, turns in shared memory, boxes of tensor-memory copies."""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from kbench.benchmark.work.lanes import WARP, Array

SECTOR = 32
"""Bytes that L1 and L2 move at least."""
BANKS = 32
WORD = 4
MOST_SECTORS = 1 << 16
"""Sectors that a footprint remembers."""

Numbers = dict[int, list[tuple[int, int | None]]]
"""Integers in shared memory by address: the warp that left each, in order."""


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
    # Where the request begins only turns the banks round, and loops repeat the same pattern.
    return _turns((addresses - addresses[:1] // WORD * WORD).tobytes(), nbytes)


@functools.lru_cache(maxsize=4096)
def _turns(pattern: bytes, nbytes: int) -> int:
    addresses: Array = np.frombuffer(pattern, dtype=np.int64)
    together = max(1, min(WARP, BANKS * WORD // max(nbytes, WORD)))
    turns = 0
    for start in range(0, len(addresses), together):
        first = np.unique(addresses[start : start + together] // WORD)
        words = (
            np.unique(np.concatenate([first + n for n in range(max(1, nbytes // WORD))])) if nbytes > WORD else first
        )
        turns += int(np.bincount(words % BANKS).max(initial=1))
    return max(turns, 1)


class Footprint:
    """Sectors that the warps of a block have touched: what L1 still holds is served there.

    L1 keeps what was used last. Two generations stand for that order: when the younger has filled half of L1, the
    older is forgotten.
    """

    def __init__(self, sectors: int = MOST_SECTORS, numbers: Numbers | None = None) -> None:
        """An L1 that holds so many sectors, and integers that were left in shared memory."""
        self.ever: set[int] = set()
        self.own: dict[int, set[int]] = {}
        """Sectors by buffer that the present warp touched."""
        self._half = max(1, sectors // 2)
        self._young: set[int] = set()
        self._old: set[int] = set()
        self._filled = 0.0
        self.numbers: Numbers = numbers if numbers is not None else {}

    def begin_warp(self) -> None:
        """Another warp of the block runs from here on."""
        self.own = {}

    def touch(self, buffer: int, request: set[int], *, cached: bool) -> tuple[int, int]:
        """Sectors of a request that L1 has to ask for, and those that no request of the block touched before."""
        own = self.own.setdefault(buffer, set())
        unique = len(request - self.ever)
        if len(own) < MOST_SECTORS:
            own |= request
        if unique and len(self.ever) < MOST_SECTORS:
            self.ever |= request
        if not cached:
            return len(request), unique
        fresh = request - self._young
        missing = len(fresh - self._old)
        self._young |= fresh
        self._age(len(fresh))
        return missing, unique

    def pass_by(self, sectors: float) -> None:
        """Turns of a loop that are not executed bring so many sectors into L1, and push out others."""
        for _ in range(2):
            self._age(sectors / 2)

    def _age(self, sectors: float) -> None:
        self._filled += sectors
        if self._filled > self._half:
            self._young, self._old, self._filled = set(), self._young, 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """What one transfer through a tensor map moves."""

    extents: tuple[int, ...]
    """Elements along each dimension, innermost first."""
    element_bytes: int
    buffer: int = 0
    """Number of the buffer that the map describes, from one."""

    @property
    def nbytes(self) -> int:
        """Bytes of the whole box."""
        return math.prod(self.extents) * self.element_bytes
