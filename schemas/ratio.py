"""Ratio: one measured figure over another, with the interval that follows from theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence


def ratio(one: Sequence[float | None], other: Sequence[float | None]) -> tuple[float, float | None, float | None]:
    """One figure divided by an independent one, each with the ends of its interval: log half-widths add in quadrature.

    Ends are null where either interval is not known.
    """
    assert one[0] is not None
    assert other[0] is not None
    value = one[0] / other[0]
    if one[1] is None or one[2] is None or other[1] is None or other[2] is None:
        return value, None, None
    down = math.hypot(math.log(one[0] / one[1]), math.log(other[2] / other[0]))
    up = math.hypot(math.log(one[2] / one[0]), math.log(other[0] / other[1]))
    return value, value * math.exp(-down), value * math.exp(up)
