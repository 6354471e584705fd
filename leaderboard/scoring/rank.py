"""Places of entries on a track and overall, from paired differences, and what these tell apart.

Every entry is scored with the same seed on the same problems, so that draw i is the same sample for all of them. Two
entries are compared on what both answered: all questions, or core where one of them answers core alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Booleans
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.scoring.compare import Power

OVERALL_RULE = (
    "Overall is the mean over tracks of the headline on a common scale: 0 is what the training frequencies score, 1 "
    "what a second measurement of the same kernels scores. A track that an entry does not answer counts 0. Intervals "
    "draw problems, the same for all entries and tracks. An entry's rank counts the entries with a higher figure on "
    "the questions that both answered; its interval counts those that are decidedly better or worse."
)
SAMPLED_PAIRS = 1000
"""Pairs of entries from which the least difference is estimated, where there are more."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class Verdicts:
    """Of every two entries, one a row and the other a column: is the column's entry better?"""

    higher: Booleans
    """Its figure is higher."""
    surely: Booleans
    """It is ahead in so many draws that the interval of the difference does not hold zero."""
    apart: Booleans
    """The two differ in some draw."""
    alike: Booleans
    """They have figures and differ in none."""

    @classmethod
    def of(cls, figures: Sequence[Figure | None]) -> Verdicts:
        """Compare figures on the same questions; one that is missing is neither better nor worse than any.

        Draws are counted, not sorted: a board of thousands has millions of pairs.
        """
        present = [figure for figure in figures if figure is not None]
        shared = min((len(figure.draws) for figure in present), default=0)
        missing = np.full(shared, np.nan)
        draws = np.array([missing if one is None else one.draws[:shared] for one in figures], dtype=np.float32).T
        ahead = np.zeros((len(figures), len(figures)), dtype=np.uint16)
        for row in range(len(figures)):
            np.add.reduce((draws > draws[:, row, None]).view(np.uint8), axis=0, out=ahead[row])
        values = np.array([np.nan if one is None else one.value for one in figures])
        apart = (ahead > 0) | (ahead.T > 0)
        outside = (1 - present[0].level) / 2 if present else 0.0
        known = ~np.isnan(values)
        alike = ~apart & known & known[:, None]
        return cls(values > values[:, None], apart & (shared - ahead <= outside * shared), apart, alike)


class Contest:
    """The entries of one track, each compared with all others."""

    def __init__(self, headlines: Mapping[str, Headline]) -> None:
        """Compare entries.

        Args:
            headlines: by entry id; entries without a figure are left out.
        """
        self._headlines = {name: one for name, one in sorted(headlines.items()) if not np.isnan(one.shown)}
        entries = list(self._headlines.values())
        self._verdicts = Verdicts.of([one.whole for one in entries])
        answers_all = np.array([one.whole is not None for one in entries], dtype=np.bool_)
        if not answers_all.all():
            on_all, on_core = self._verdicts, Verdicts.of([one.core for one in entries])
            both = answers_all & answers_all[:, None]
            names = [field.name for field in dataclasses.fields(Verdicts)]
            chosen = {name: np.where(both, getattr(on_all, name), getattr(on_core, name)) for name in names}
            self._verdicts = Verdicts(**chosen)

    def places(self) -> list[Place]:
        """Places, best first."""
        count = len(self._headlines)
        ranks = 1 + self._verdicts.higher.sum(axis=1)
        lows, highs = 1 + self._verdicts.surely.sum(axis=1), count - self._verdicts.surely.sum(axis=0)
        made = [
            Place(name, int(ranks[at]), int(lows[at]), int(highs[at]), one.shown)
            for at, (name, one) in enumerate(self._headlines.items())
        ]
        return sorted(made, key=lambda place: (place.rank, place.entry_id))

    def power(self) -> Power:
        """What the track tells apart; the least difference is that of a sample where pairs are very many.

        Entries that are the same in every draw count once: three constants are one and the same rival to others.
        """
        first = np.logical_not(np.triu(self._verdicts.alike, 1).any(axis=0))
        apart, surely = (each[np.ix_(first, first)] for each in (self._verdicts.apart, self._verdicts.surely))
        pairs = int(apart.sum()) // 2
        everyone = list(self._headlines.values())
        entries = [everyone[at] for at in np.flatnonzero(first)]
        if pairs <= SAMPLED_PAIRS:
            # Not all combinations: thousands of entries may answer alike.
            chosen = np.argwhere(np.triu(apart)).tolist()
        else:
            chosen = np.random.default_rng(0).integers(len(entries), size=(SAMPLED_PAIRS, 2)).tolist()
        differences = (entries[one].minus(entries[other]) for one, other in chosen)
        sample = Power.of([difference for difference in differences if difference is not None])
        return Power(pairs, int(surely.sum()), sample.least_difference)
