"""Score: one metric with its interval."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Score(Record):
    """One metric of one surrogate on one track and slice, with its bootstrap interval."""

    TYPE: ClassVar[str] = "score"
    VERSION: ClassVar[str] = "1.0.0"

    track: Name
    """forecast, select, rank, search or validity."""
    metric: Name
    """The metric's name in kbench.benchmark.metrics."""
    slice: str
    """`all`, or facet=value such as family=matmul."""
    value: float | None
    """The figure; null when the slice has too few rows to define it."""
    low: float | None
    """Lower end of the 95 % bootstrap interval clustered by problem."""
    high: float | None
    """Upper end."""
    ceiling: float | None
    """What a re-measurement would score; null where the idea does not apply."""
    rows: Count
    """Queries behind the figure."""
