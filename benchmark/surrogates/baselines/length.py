"""`length`: the candidate's length against the anchor's. What counting characters scores."""

from __future__ import annotations

import math

from kbench.benchmark.surrogates.baselines.binned import BinnedSurrogate
from kbench.schemas import Query


class LengthSurrogate(BinnedSurrogate):
    """Longer sources are more specialised ones, or so the naive reader hopes."""

    def number(self, query: Query) -> float:
        """Log ratio of the lengths."""
        return math.log((len(query.candidate_source) + 1) / (len(query.anchor_source) + 1))
