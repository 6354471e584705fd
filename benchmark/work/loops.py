"""Loops that repeat: the turns left are solved from the comparisons, so that they need not be run.

A pipelined loop rotates through its buffers, so its registers change by equal amounts only every few turns. Whole
periods are left out when three in a row did the same: registers that the loop carries along advanced evenly, the same
comparisons were made in the same order, and as many instructions were issued.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.benchmark.work.lanes import COMPARISONS, Lanes, Mask, folded, same, spread

PERIODS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
"""Turns after which a loop may repeat: as many as a pipeline has buffers, or twice as many with a phase bit."""
ABOUT = 0.05
"""How much the lengths of a loop's periods may differ when only its end is known to advance evenly."""
ENOUGH_TURNS, MANY_STEPS = 9, 1500
"""Turns, and instructions executed in them, after which a loop need only advance about evenly."""
MOST_TURNS = 1 << 40
COUNTS = (
    "visits", "sectors", "fresh", "unique", "fetched", "wavefronts", "copied", "waits", "rounds", "unknown_branches",
    "unknown_addresses",
)  # fmt: skip


def _counter() -> defaultdict[Any, float]:
    return defaultdict(float)


@dataclasses.dataclass(slots=True)
class Trace:
    """What a warp did, by index of the instruction; fractions where a branch was unknown."""

    visits: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """How often an instruction was issued."""
    sectors: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """Sectors of 32 bytes that a global access asked for."""
    fresh: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """Those of them that L1 does not hold."""
    unique: defaultdict[tuple[int, int], float] = dataclasses.field(default_factory=_counter)
    """Those of them that the block had not asked for before, by access and buffer; buffer 0 is unknown."""
    fetched: defaultdict[tuple[int, int], float] = dataclasses.field(default_factory=_counter)
    """Bytes that L2 is asked for, by access and buffer."""
    wavefronts: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """Turns that a shared access took, bank conflicts included."""
    copied: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """Bytes that a bulk or tensor-memory copy moved."""
    waits: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """Branches that wait for another thread's signal, taken to have come."""
    rounds: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    """How often code between two branches read global memory, by where it begins."""
    unknown_branches: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    unknown_addresses: defaultdict[int, float] = dataclasses.field(default_factory=_counter)
    issued: float = 0.0
    """All visits."""
    uncertain: float = 0.0
    """Visits on one side of an unknown branch."""
    steps: int = 0
    """Instructions that were executed to find this out."""

    def copy(self) -> Trace:
        """The state so far."""
        counts = {name: getattr(self, name).copy() for name in COUNTS}
        return Trace(**counts, issued=self.issued, uncertain=self.uncertain, steps=self.steps)

    def repeat(self, before: Trace, times: float) -> None:
        """Do once more what was done since a former state, that many times."""
        for name in COUNTS:
            mine, then = getattr(self, name), getattr(before, name)
            for at, value in mine.items():
                mine[at] = value + times * (value - then.get(at, 0.0))
        self.issued += times * (self.issued - before.issued)
        self.uncertain += times * (self.uncertain - before.uncertain)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Two integers that an instruction compared."""

    at: int
    left: Lanes
    right: Lanes
    relation: str


@dataclasses.dataclass(frozen=True, slots=True)
class Turn:
    """The state when a loop's head is reached again."""

    registers: dict[str, Lanes]
    trace: Trace
    comparisons: int
    """How many had been made."""


def periods_left(
    turns: Sequence[Turn],
    period: int,
    carried: frozenset[str],
    log: Sequence[Comparison],
    active: Mask,
    decisive: frozenset[int] | None = None,
) -> int:
    """How many whole periods a loop still has that are like its last two; 0 when those differ.

    With `decisive` comparisons, those that end the loop, periods need only be about as long as each other: a loop over
    tiles computes their places by divisions, so nothing in it advances evenly but the number of the tile.
    """
    last, middle, first = turns[-1], turns[-1 - period], turns[-1 - 2 * period]
    done, before = last.trace.issued - middle.trace.issued, middle.trace.issued - first.trace.issued
    if not math.isclose(done, before, rel_tol=1e-9 if decisive is None else ABOUT):
        return 0
    now, then = log[middle.comparisons : last.comparisons], log[first.comparisons : middle.comparisons]
    if decisive is not None:
        now, then = ([one for one in part if one.at in decisive] for part in (now, then))
    elif not all(_even(last.registers.get(n), middle.registers.get(n), first.registers.get(n)) for n in carried):
        return 0
    if len(now) != len(then):
        return 0
    left: int = MOST_TURNS
    for new, old in zip(now, then, strict=True):
        if new.at != old.at:
            return 0
        left = min(left, _periods_until_change(new, old, active))
        if left <= 2:
            return 0
    # The last two periods are run, so that the loop ends as it ends.
    return left - 2 if left < MOST_TURNS else 0


def _even(last: Lanes, middle: Lanes, first: Lanes) -> bool:
    if last is None or middle is None or first is None:
        return last is None and middle is None
    if isinstance(last, int) and isinstance(middle, int) and isinstance(first, int):
        return last - middle == middle - first
    return bool(((spread(last) - spread(middle)) == (spread(middle) - spread(first))).all())


def _periods_until_change(new: Comparison, old: Comparison, active: Mask) -> int:
    """Periods until a comparison of two numbers that advance evenly has another outcome for a lane."""
    a, b, c, d = new.left, new.right, old.left, old.right
    if a is None or b is None or c is None or d is None or new.relation not in COMPARISONS:
        return MOST_TURNS
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int) and isinstance(d, int) and a - b == c - d:
        return MOST_TURNS
    gap, was = (spread(a) - spread(b))[active], (spread(c) - spread(d))[active]
    step = gap - was
    compare = COMPARISONS[new.relation]
    now = compare(gap, 0)
    if (compare(was, 0) != now).any():
        return 0
    moving = step != 0
    # The sign of the gap decides, so the outcome changes next to where the gap is zero.
    zeros: set[int] = {math.floor(zero) for zero in (-gap[moving] / step[moving]).tolist() if zero >= 0}
    for periods in sorted({max(1, zero + offset) for zero in zeros for offset in (-1, 0, 1, 2)}):
        if periods < MOST_TURNS and np.any(compare(gap + periods * step, 0) != now):
            return periods
    return MOST_TURNS


def about_even(turns: Sequence[Turn]) -> bool:
    """Whether the last turns issued about as many instructions each."""
    issued = [turn.trace.issued for turn in turns[-ENOUGH_TURNS:]]
    lengths = [after - before for before, after in itertools.pairwise(issued)]
    return max(lengths) - min(lengths) <= ABOUT * max(lengths)


def advanced(last: Turn, before: Turn, first: Turn, periods: int, carried: frozenset[str]) -> dict[str, Lanes]:
    """The registers after so many more periods; those that a loop carries along unevenly stay, for one turn's values
    are as good as another's."""
    registers = dict(last.registers)
    for name in carried:
        value, old = last.registers.get(name), before.registers.get(name)
        if value is None or old is None or same(value, old):
            continue
        if not _even(value, old, first.registers.get(name)):
            continue
        if isinstance(value, int) and isinstance(old, int):
            registers[name] = value + periods * (value - old)
        else:
            registers[name] = folded(spread(value) + np.int64(periods) * (spread(value) - spread(old)))
    return registers
