"""Tracks: the questions a surrogate is judged on. Each track's name is written here and nowhere else."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Literal


@dataclasses.dataclass(frozen=True, slots=True)
class Track:
    """One question of the benchmark."""

    name: str
    asks_about: Literal["pairs", "pools"]
    """What its queries are about: two kernels, or the kernels of one pool."""
    question: str
    """The question in one or two sentences, with how to read the headline."""
    scale: str
    """What the ends of the headline's scale mean, in a few words for the head of a column."""

    @property
    def title(self) -> str:
        """The name as a heading."""
        return self.name.capitalize()


FORECAST = Track(
    "forecast",
    "pairs",
    "How good is the forecast distribution, kernel against kernel? Skill is against the training prior of each kind of "
    "pair: 0 is no better, 1 is perfect.",
    "0 the prior, 1 perfect",
)
EDIT = Track(
    "edit",
    "pairs",
    "Is this edit faster than the kernel it was made from? AUROC over edits that change the time by more than 2 %, "
    "averaged over problems: ½ is a coin.",
    "½ a coin, 1 perfect",
)
RANK = Track(
    "rank",
    "pools",
    "Does it order the kernels of one author class? Rank correlation of forecast and measured speed, averaged over "
    "pools: 0 is a random order.",
    "0 random, 1 as measured",
)
SELECT = Track(
    "select",
    "pairs",
    "Does it know when it does not know? The share of wrong answers to 'which kernel is faster', averaged as more and "
    "more queries are answered, the surest first: ½ is a coin, 0 is perfect.",
    "½ a coin, 0 perfect",
)
TRACKS = (FORECAST, EDIT, RANK, SELECT)
OVERALL = "overall"
"""What the mean over tracks is called; no track has this name."""
TRACK_NAMES = tuple(track.name for track in TRACKS)
PAIR_TRACKS = tuple(track.name for track in TRACKS if track.asks_about == "pairs")
SHOTS = (0, 2, 8)
"""How many measured kernels of its pool a query may name."""


def pairs_only(names: Iterable[str]) -> bool:
    """Whether all these tracks ask about pairs, so that pool queries need no answer."""
    return set(names) <= set(PAIR_TRACKS)
