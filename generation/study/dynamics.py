"""Search dynamics: what steps, operators and edits gain, how varied kernels stay, how soon a search is nearly done."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kbench.generation.study.attempts import Attempt

NEAR = 1.05
"""A search is nearly done once its best is within 5 % of its final best."""
FEWEST = 10
"""Attempts an edit needs in a family before it is listed."""
Runs = Mapping[str, Sequence[Attempt]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepFigures:
    """All searches at one step."""

    step: int
    searches: int
    """Searches that measured something in this step."""
    improved: float | None
    """Share of searches with an earlier correct kernel whose best rose."""
    gain_octaves: float | None
    """Mean rise of log2 best, those without a rise included."""
    distinct: float
    """Niches over kernels measured so far, mean over searches: 1 when no two are alike."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFigures:
    """All attempts of one operator, or of one edit in one family."""

    name: str
    family: str | None
    attempts: int
    correct: float
    """Share that is correct."""
    beat_parent: float | None
    """Share of attempts on a correct parent that are faster than it; failures count as not."""
    beat_parent_low: float | None
    """Lower end of its 95 % interval (Wilson), as if attempts were independent."""
    beat_parent_high: float | None
    """Upper end."""
    beat_best: float | None
    """Share of attempts faster than everything their search had before."""
    gain_octaves: float | None
    """Median log2 of child over parent speedup, where both are correct."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MethodFigures:
    """How soon the searches of one method are nearly done."""

    method: str
    searches: int
    """Searches with a correct kernel."""
    measurements: float
    """Median number of kernels measured."""
    near_after: float
    """Median number of measurements until the best is within 5 % of the search's final best."""
    near_share: float
    """Mean of that number over all measurements of the search."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dynamics:
    """What a set of searches shows."""

    searches: int
    attempts: int
    steps: tuple[StepFigures, ...]
    operators: tuple[ChangeFigures, ...]
    edits: tuple[ChangeFigures, ...]
    methods: tuple[MethodFigures, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    """An attempt and the best its search had before."""

    attempt: Attempt
    best_before: float | None

    @property
    def beats_best(self) -> bool:
        return self.best_before is not None and (self.attempt.speedup or 0.0) > self.best_before


def dynamics(runs: Runs) -> Dynamics:
    """Figures of a set of searches; the same runs give the same figures."""
    placed = [one for run in runs.values() for one in _placed(run)]
    edits = _changes(placed, lambda one: (one.edit, one.family) if one.edit else None)
    return Dynamics(
        searches=len(runs),
        attempts=len(placed),
        steps=tuple(_steps(runs)),
        operators=tuple(_changes(placed, lambda one: (f"{one.operator} ({one.proposer})", None))),
        edits=tuple(sorted((one for one in edits if one.attempts >= FEWEST), key=_payoff)),
        methods=tuple(_methods(runs)),
    )


def _payoff(change: ChangeFigures) -> tuple[str, float, str]:
    """Families by name, within them what surely pays first: a few lucky attempts do not lead."""
    return change.family or "", -(change.beat_parent_low or 0.0), change.name


def _placed(run: Sequence[Attempt]) -> Iterator[_Placed]:
    best: float | None = None
    for attempt in run:
        yield _Placed(attempt, best)
        best = _better(best, attempt.speedup)


def _better(one: float | None, other: float | None) -> float | None:
    return max((each for each in (one, other) if each is not None), default=None)


def _steps(runs: Runs) -> Iterator[StepFigures]:
    rises: dict[int, list[float]] = defaultdict(list)
    variety: dict[int, list[float]] = defaultdict(list)
    for run in runs.values():
        best: float | None = None
        niches: set[str] = set()
        measured = 0
        for step in sorted({attempt.step for attempt in run}):
            own = [attempt for attempt in run if attempt.step == step]
            after = best
            for attempt in own:
                after = _better(after, attempt.speedup)
            if best is not None and after is not None:
                rises[step].append(math.log2(after / best))
            best, measured = after, measured + len(own)
            niches |= {attempt.niche for attempt in own}
            variety[step].append(len(niches) / measured)
    for step in sorted(variety):
        yield StepFigures(
            step=step,
            searches=len(variety[step]),
            improved=_mean(rise > 0 for rise in rises[step]),
            gain_octaves=_mean(rises[step]),
            distinct=statistics.fmean(variety[step]),
        )


def _changes(
    placed: Sequence[_Placed], key: Callable[[Attempt], tuple[str, str | None] | None]
) -> Iterator[ChangeFigures]:
    groups: dict[tuple[str, str | None], list[_Placed]] = defaultdict(list)
    for one in placed:
        named = key(one.attempt)
        if named is not None:
            groups[named].append(one)
    for (name, family), members in sorted(groups.items(), key=lambda item: (item[0][1] or "", item[0][0])):
        pairs = [(one.attempt.speedup, one.attempt.parent_speedup) for one in members]
        gains = [math.log2(child / parent) for child, parent in pairs if child is not None and parent is not None]
        faster = [(child or 0.0) > parent for child, parent in pairs if parent is not None]
        low, high = _interval(faster)
        yield ChangeFigures(
            name=name,
            family=family,
            attempts=len(members),
            correct=statistics.fmean(child is not None for child, _ in pairs),
            beat_parent=_mean(faster),
            beat_parent_low=low,
            beat_parent_high=high,
            beat_best=_mean(one.beats_best for one in members if one.best_before is not None),
            gain_octaves=statistics.median(gains) if gains else None,
        )


def _methods(runs: Runs) -> Iterator[MethodFigures]:
    groups: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for run in runs.values():
        final = max((attempt.speedup for attempt in run if attempt.speedup is not None), default=None)
        if final is None:
            continue
        near = next(n for n, attempt in enumerate(run, 1) if (attempt.speedup or 0.0) * NEAR >= final)
        groups[run[0].method].append((near, len(run)))
    for method, found in sorted(groups.items()):
        yield MethodFigures(
            method=method,
            searches=len(found),
            measurements=statistics.median(of for _, of in found),
            near_after=statistics.median(near for near, _ in found),
            near_share=statistics.fmean(near / of for near, of in found),
        )


def _interval(happened: Sequence[bool]) -> tuple[float | None, float | None]:
    if not happened:
        return None, None
    from scipy.stats import binomtest

    interval = binomtest(sum(happened), len(happened)).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def _mean(values: Iterable[float]) -> float | None:
    numbers = list(values)
    return statistics.fmean(numbers) if numbers else None
