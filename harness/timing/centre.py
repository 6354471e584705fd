"""Centre: the typical value of a few samples."""

from __future__ import annotations

import math
from collections.abc import Sequence

CUT = 6
"""One part in this many is cut off at each end."""


def centre(values: Sequence[float]) -> float:
    """Mean of what is left when the extremes at both ends are cut off; of three values, the middle one.

    Times of short calls form two clusters (see timing/batch.py). A median jumps from one to the other; a mean moves
    with the share of each, and trimming keeps the rare outlier out.
    """
    ordered = sorted(values)
    cut = max(1, len(ordered) // CUT) if len(ordered) > 2 else 0
    kept = ordered[cut : len(ordered) - cut]
    return math.fsum(kept) / len(kept)
