"""Two surrogates on the same questions: paired differences, and a verdict for each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.bootstrap import Figure, divide
from kbench.benchmark.metrics.forecast import LEVEL_SKILL, SKILL
from kbench.benchmark.metrics.registry import BY_NAME, headline, sign_of
from kbench.benchmark.scoring.score import Scored, finite
from kbench.benchmark.tracks import OVERALL


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One surrogate's figure minus the other's."""

    difference: float | None
    low: float | None
    high: float | None
    verdict: str
    """better, worse, or undecided when the interval holds zero or there is none."""

    @classmethod
    def of(cls, sign: float, one: Figure, other: Figure) -> Difference:
        """The paired difference of two figures; times `sign` the higher one is the better one."""
        paired = one.minus(other)
        low, high = finite(paired.low), finite(paired.high)
        if low is None or high is None or low <= 0.0 <= high:
            verdict = "undecided"
        else:
            verdict = "better" if sign * low > 0.0 else "worse"
        return cls(finite(paired.value), low, high, verdict)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Every metric that both surrogates have."""

    surrogate: str
    against: str
    tracks: Mapping[str, Mapping[str, Difference]]

    @classmethod
    def of(cls, name: str, one: Scored, other_name: str, other: Scored) -> Comparison:
        """Compare two surrogates that were scored on the same questions with the same seed.

        Then draw i drew the same problems for both, and the differences are paired.
        """
        tracks = {
            track: {
                metric: Difference.of(BY_NAME[track, metric].sign, figure, other.figures[track][metric])
                for metric, figure in figures.items()
                if metric in other.figures.get(track, {})
            }
            for track, figures in one.figures.items()
        }
        return cls(name, other_name, tracks)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return dataclasses.asdict(self)

    def text(self) -> str:
        """The headlines, one line each."""
        lines = [f"{self.surrogate} minus {self.against}, paired by problem"]
        for track, found in self.tracks.items():
            metric = headline(track)
            entry = found.get(metric.name)
            if entry is None or entry.difference is None:
                continue
            low, high = (metric.text(end, sign="+") for end in (entry.low, entry.high))
            interval = "" if entry.low is None else f" [{low}, {high}]"
            value = metric.text(entry.difference, sign="+")
            lines.append(f"  {track} {metric.name} {metric.arrow}: {value}{interval} {entry.verdict}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True, slots=True)
class BesideProbes:
    """How far a headline is above what needs no understanding."""

    probe: str
    """The strongest one."""
    value: float | None
    low: float | None
    high: float | None
    over_probe: Difference
    """Of the headline from this probe."""
    reached: bool
    """Whether this probe comes as far, within the interval: then the figure is no headline."""


def headlines(track: str, scored: Mapping[str, Scored]) -> dict[str, Figure]:
    """A track's headline, or overall, of those that have one, by name."""
    return {name: figure for name, one in scored.items() if (figure := one.headline(track)) is not None}


def strongest(track: str, figure_of: Mapping[str, Figure]) -> str:
    """The name with the best headline of a track."""
    return max(figure_of, key=lambda name: sign_of(track) * figure_of[name].value)


def beside_probes(scored: Scored, probes: Mapping[str, Scored]) -> dict[str, BesideProbes]:
    """Each headline, and overall, beside the strongest probe; empty without probes."""
    beside = {}
    for track in (*scored.figures, OVERALL) if probes else ():
        mine, figure_of = scored.headline(track), headlines(track, probes)
        if mine is None or not figure_of:
            continue
        name = strongest(track, figure_of)
        probe = figure_of[name]
        over_probe = Difference.of(sign_of(track), mine, probe)
        beside[track] = BesideProbes(
            probe=name,
            value=finite(probe.value),
            low=finite(probe.low),
            high=finite(probe.high),
            over_probe=over_probe,
            reached=over_probe.difference is not None and over_probe.verdict != "better",
        )
    return beside


POWER = 0.8
"""Share of the samples of problems that are to decide a difference."""


@dataclasses.dataclass(frozen=True, slots=True)
class Power:
    """What a headline tells apart among some entries."""

    pairs: int
    """Of two entries with different answers."""
    decided: int
    """Pairs whose difference has an interval without zero."""
    least_difference: float | None
    """Difference of two entries that four of five samples of problems decide: the median over pairs."""

    @classmethod
    def of(cls, differences: Sequence[Figure]) -> Power:
        """From the paired differences of any two entries."""
        decidable = [one for one in differences if _differs(one)]
        intervals = [one.interval for one in decidable]
        # Each draw is a sample whose estimate is off by its distance from the value, with an interval of this width.
        # Either entry may be the better one, so errors count with both signs: 80 % are below the 60 % quantile of
        # their sizes.
        errors = [np.nanquantile(np.abs(one.draws - one.value), 2 * POWER - 1) for one in decidable]
        least = [(high - low) / 2 + float(error) for (low, high), error in zip(intervals, errors, strict=True)]
        decided = sum(low > 0.0 or high < 0.0 for low, high in intervals)
        return cls(len(decidable), decided, float(np.median(least)) if least else None)

    @classmethod
    def among(cls, figures: Sequence[Figure]) -> Power:
        """Of entries that all answered the same questions; those that are the same in every draw count once."""
        distinct: list[Figure] = []
        for figure in figures:
            if all(_differs(figure.minus(other)) for other in distinct):
                distinct.append(figure)
        return cls.of([one.minus(other) for one, other in itertools.combinations(distinct, 2)])


def _differs(difference: Figure) -> bool:
    return len(difference.draws) > 0 and float(np.ptp(difference.draws)) > 0.0


def skill_over(one: Scored, other: Scored) -> dict[str, Figure]:
    """Skill with another surrogate's forecasts in the place of the training prior; empty where either has none.

    Both skills are 1 − RPS / RPS of the prior, on the same questions and draws, so that the prior cancels.
    """
    pairs = {
        metric.name: [scored.figures.get(metric.track.name, {}).get(metric.name) for scored in (one, other)]
        for metric in (SKILL, LEVEL_SKILL)
    }
    return {
        name: Figure(
            1.0 - (1.0 - mine.value) / (1.0 - theirs.value), 1.0 - divide(1.0 - mine.draws, 1.0 - theirs.draws)
        )
        for name, (mine, theirs) in pairs.items()
        if mine is not None and theirs is not None and theirs.value < 1.0
    }
