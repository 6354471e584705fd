"""Places of entries on a track and overall, from paired differences, and what these tell apart.

Every entry is scored with the same seed on the same problems, so that draw i is the same sample for all of them. Two
entries are compared on what both answered: all questions, or core where one of them answers core alone.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
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


def contest(headlines: Mapping[str, Headline]) -> tuple[list[Place], Power]:
    """Compare every two entries of a track.

    Args:
        headlines: by entry id; entries without a figure are left out.

    Returns:
        Places, best first, and what the track tells apart; its least difference is that of a sample of very many pairs.
    """
    entries = {name: one for name, one in sorted(headlines.items()) if not np.isnan(one.shown)}
    step = max(1, len(entries) * (len(entries) - 1) // 2 // SAMPLED_PAIRS)
    behind, surely_behind, surely_ahead = Counter[str](), Counter[str](), Counter[str]()
    pairs, sample = 0, []
    for number, (name, other) in enumerate(itertools.combinations(entries, 2)):
        difference = entries[name].minus(entries[other])
        if difference is None:
            continue
        if difference.value:
            behind[other if difference.value > 0.0 else name] += 1
        if not difference.draws.any():
            continue
        pairs += 1
        # Draws are counted, not sorted: a board of a thousand has half a million pairs.
        outside = (1 - difference.level) / 2 * len(difference.draws)
        for ahead, after, against in ((name, other, difference.draws <= 0.0), (other, name, difference.draws >= 0.0)):
            if np.count_nonzero(against) <= outside:
                surely_ahead[ahead] += 1
                surely_behind[after] += 1
        if number % step == 0:
            sample.append(difference)
    places = [
        Place(name, 1 + behind[name], 1 + surely_behind[name], len(entries) - surely_ahead[name], one.shown)
        for name, one in entries.items()
    ]
    power = Power(pairs, surely_behind.total(), Power.of(sample).least_difference)
    return sorted(places, key=lambda place: (place.rank, place.entry_id)), power
