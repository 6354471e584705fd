"""Lanes: integers of a warp's 32 threads, one number where all agree; None where nothing is known.

Registers hold values modulo their width, as the machine does: unsigned in arrays of 64-bit words, and read as signed
numbers where an instruction's type says so.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

Lanes = int | np.ndarray | None
"""A value per lane, the same for all, or unknown."""
WARP = 32
IDS = np.arange(WARP, dtype=np.int64)
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def wrapped(value: Lanes, kind: str) -> Lanes:
    """A value in the range of an integer type such as s32, u16 or b64."""
    if value is None:
        return None
    bits = int(kind[1:]) if kind[1:].isdigit() else 64
    if isinstance(value, np.ndarray):
        if bits >= 64:
            return value
        low = value & ((1 << bits) - 1)
        return low - ((low >> (bits - 1)) << bits) if kind[0] == "s" else low
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if (kind[0] == "s" or bits >= 64) and low >> (bits - 1) else low


def folded(value: Lanes) -> Lanes:
    """One number where all lanes agree."""
    if isinstance(value, np.ndarray) and (value == value[0]).all():
        return int(value[0])
    return value


def spread(value: Lanes) -> np.ndarray:
    """A known value as an array."""
    return value if isinstance(value, np.ndarray) else np.full(WARP, int(value or 0), dtype=np.int64)


def divided(a: Lanes, b: Lanes, *, remainder: bool) -> Lanes:
    """Quotient or remainder, rounded towards zero as the machine does; unknown where the divisor is zero."""
    if a is None or b is None or np.any(spread(b) == 0):
        return None
    x, y = spread(a), spread(b)
    quotient = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return folded(x - quotient * y if remainder else quotient)


def shifted(a: Lanes, by: Lanes, *, left: bool, bits: int) -> Lanes:
    """A shift; by the width or more it shifts everything out."""
    if a is None or by is None:
        return None
    if isinstance(a, int) and isinstance(by, int):
        if left:
            return a << by if by < bits else 0
        return a >> min(by, bits - 1)
    x, n = spread(a), np.minimum(spread(by), 63)
    out = np.where(n >= bits, 0, x << n) if left else x >> np.minimum(n, bits - 1)
    return folded(out)


def chosen(condition: Lanes, yes: Lanes, no: Lanes) -> Lanes:
    """Per lane, one of two values."""
    if isinstance(condition, (int, bool)):
        return yes if condition else no
    if condition is None or yes is None or no is None:
        return None
    return folded(np.where(condition.astype(bool), spread(yes), spread(no)))
