"""Speedup bins: the one constant that labels, prompts, plots and pages render from.

Half-octave edges; a lower edge belongs to the bin above it; eight bins numbered 1 to 8.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

EDGES: tuple[float, ...] = (0.5, 1 / math.sqrt(2), 1.0, math.sqrt(2), 2.0, 2 * math.sqrt(2), 4.0)
COUNT = len(EDGES) + 1
NUMBERS: tuple[int, ...] = tuple(range(1, COUNT + 1))


def bin_of(speedup: float) -> int:
    """The bin of one speedup, by comparison with the edges (log2 would misplace values on an edge)."""
    if not (speedup > 0 and math.isfinite(speedup)):
        raise ValueError(f"speedup must be a positive finite number, got {speedup!r}")
    return bisect_right(EDGES, speedup) + 1


def bins_of(speedups: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The bins of many speedups."""
    import numpy

    values = numpy.asarray(speedups, dtype=numpy.float64)
    if not bool(numpy.all(numpy.isfinite(values) & (values > 0))):
        raise ValueError("every speedup must be a positive finite number")
    result: npt.NDArray[Any] = numpy.searchsorted(numpy.asarray(EDGES), values, side="right") + 1
    return result.astype(numpy.int64)


def bounds(number: int) -> tuple[float, float]:
    """Lower (inclusive) and upper (exclusive) speedup of a bin; the outer bins reach 0 and infinity."""
    if number not in NUMBERS:
        raise ValueError(f"bin must be one of {NUMBERS}, got {number!r}")
    lower = EDGES[number - 2] if number > 1 else 0.0
    upper = EDGES[number - 1] if number < COUNT else math.inf
    return lower, upper


def center(number: int) -> float:
    """A representative speedup: the geometric middle; outer bins reach one half-octave past their edge."""
    lower, upper = bounds(number)
    if lower == 0.0:
        lower = upper / math.sqrt(2)
    if math.isinf(upper):
        upper = lower * math.sqrt(2)
    return math.sqrt(lower * upper)


def label(number: int) -> str:
    """How a bin is shown to people and models."""
    lower, upper = bounds(number)
    if lower == 0.0:
        return f"S < {upper:.4g}"
    if math.isinf(upper):
        return f"S ≥ {lower:.4g}"
    return f"{lower:.4g} ≤ S < {upper:.4g}"


LABELS: tuple[str, ...] = tuple(label(number) for number in NUMBERS)
