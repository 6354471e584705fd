"""Metric: everything about one figure. Tables, reports, the leaderboard, the docs and the CLI derive from it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from kbench.benchmark.metrics.bootstrap import Bootstrap, Figure
from kbench.benchmark.tracks import Track

Bounds = tuple[float | None, float | None]


class Better(enum.StrEnum):
    """Which end of a metric is the good one."""

    HIGH = "high"
    LOW = "low"


class Ceiling(enum.StrEnum):
    """What the score of a second measurement of the same kernels means."""

    SHOWN = "shown"
    """What a perfect forecaster would score; shown beside the value."""
    BINDING = "binding"
    """Shown, and an entry that beats it is flagged: labels can be looked up, noise cannot be forecast."""


class Shown(enum.IntEnum):
    """How widely a metric is shown; each level includes those before it."""

    FILES = 0
    TERMINAL = 1
    BOARD = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric of one track."""

    name: str
    """Key in every file, unique within its track."""
    track: Track
    label: str
    """Heading of its column."""
    meaning: str
    """One sentence for readers."""
    better: Better
    figure: Callable[[Bootstrap, Any], Figure | None]
    """Value and draws, from the track's rows (see `rows.py`); None where the rows cannot say."""
    bounds: Bounds = (0.0, 1.0)
    """Least and greatest value; None where there is no bound."""
    headline: bool = False
    """Whether the track is ranked by it; one metric per track."""
    shown: Shown = Shown.FILES
    ceiling: Ceiling = Ceiling.SHOWN
    sliced: bool = False
    """Whether it is also computed for every slice of an evaluation."""
    decimals: int = 3
    """Digits after the point wherever people read it."""

    def measured(self, bootstrap: Bootstrap, rows: Any) -> Figure | None:
        """The figure, with an interval for as many clusters as the rows have."""
        figure = self.figure(bootstrap, rows)
        return None if figure is None else dataclasses.replace(figure, level=bootstrap.level)

    @property
    def sign(self) -> float:
        """Times this, a higher value is always the better one."""
        return 1.0 if self.better is Better.HIGH else -1.0

    @property
    def arrow(self) -> str:
        """The good direction as one character."""
        return "↑" if self.better is Better.HIGH else "↓"

    def text(self, value: float | None, sign: str = "") -> str:
        """A value for people; a dash where there is none.

        Args:
            value: the number.
            sign: `+` to show the sign of differences.
        """
        return "–" if value is None else f"{value:{sign}.{self.decimals}f}"


def percent(share: float) -> str:
    """A share as metric names carry it: 05 for 0.05."""
    return f"{round(100 * share):02d}"
