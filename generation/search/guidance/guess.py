"""What a guide expects of a candidate."""

from __future__ import annotations

import dataclasses

from kbench.schemas import Forecast


@dataclasses.dataclass(frozen=True, slots=True)
class Guess:
    """What is expected of a candidate."""

    forecast: Forecast
    improvement: float | None = None
    """Expected rise of the best log2 speedup; None where it is not known."""
