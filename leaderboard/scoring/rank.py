"""Places of entries on a track and overall, from paired differences, and what these tell apart.

Every entry is scored with the same seed on the same problems, so that draw i is the same sample for all of them. Two
entries are compared on what both answered: all questions, or core where one of them answers core alone.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping

import numpy as np

from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.scoring.compare import Power

OVERALL_RULE = (
    "Overall is the mean over tracks of the headline on a common scale: 0 is what the training frequencies score, 1 "
    "what a second measurement of the same kernels scores. A track that an entry does not answer counts 0. Intervals "
    "draw problems, the same for all entries and tracks. An entry's rank counts the entries with a higher figure on "
    "the questions that both answered; its interval counts those that are decidedly better or worse."
)


@dataclasses.dataclass(frozen=True, slots=True)
class Headline:
    """One entry's headline on one track, so that higher is better; None where it has not answered all, or core."""

    whole: Figure | None
    core: Figure | None

    @property
    def shown(self) -> float:
        """The figure on most of the questions."""
        figure = self.whole or self.core
        return float("nan") if figure is None else figure.value

    def minus(self, other: Headline) -> Figure | None:
        """The difference on what both answered; None where there is nothing."""
        one, two = (self.whole, other.whole) if self.whole and other.whole else (self.core, other.core)
        if one is None or two is None:
            return None
        shared = min(len(one.draws), len(two.draws))
        return Figure(one.value - two.value, one.draws[:shared] - two.draws[:shared], one.level)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """An entry's rank with its 95 % interval."""

    entry_id: str
    rank: int
    rank_low: int
    rank_high: int
    figure: float
    """What was ranked."""


class Contest:
    """Every two entries of one track."""

    def __init__(self, headlines: Mapping[str, Headline]) -> None:
        """Compare entries.

        Args:
            headlines: by entry id; entries without a figure are left out.
        """
        self._headlines = {name: one for name, one in sorted(headlines.items()) if not np.isnan(one.shown)}
        names = list(self._headlines)
        self._ahead, self._surely = (np.zeros((len(names), len(names)), dtype=np.bool_) for _ in range(2))
        self._powers: list[Power] = []
        for one, other in itertools.combinations(range(len(names)), 2):
            difference = self._headlines[names[one]].minus(self._headlines[names[other]])
            if difference is None:
                continue
            power = Power.of([difference])
            self._powers.append(power)
            better, worse = (one, other) if difference.value > 0 else (other, one)
            self._ahead[better, worse] = difference.value != 0
            self._surely[better, worse] = bool(power.decided)

    def places(self) -> list[Place]:
        """Places, best first."""
        count = len(self._headlines)
        made = [
            Place(
                entry_id=name,
                rank=1 + int(self._ahead[:, at].sum()),
                rank_low=1 + int(self._surely[:, at].sum()),
                rank_high=count - int(self._surely[at].sum()),
                figure=one.shown,
            )
            for at, (name, one) in enumerate(self._headlines.items())
        ]
        return sorted(made, key=lambda place: (place.rank, place.entry_id))

    def power(self) -> Power:
        """What the track tells apart."""
        least = [one.least_difference for one in self._powers if one.least_difference is not None]
        pairs, decided = (sum(getattr(one, name) for one in self._powers) for name in ("pairs", "decided"))
        return Power(pairs, decided, float(np.median(least)) if least else None)
