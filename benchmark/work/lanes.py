"""Lanes: integers of a warp's 32 threads, one number where all agree; None where nothing is known.

Registers hold values modulo their width, as the machine does; 64-bit words are kept as signed numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Lanes = int | Array | None
"""A value per lane, the same for all, or unknown."""
WARP = 32
IDS: Array = np.arange(WARP, dtype=np.int64)
WIDTHS = {f"{sign}{bits}": (bits, sign == "s") for sign in "sub" for bits in (8, 16, 32)}
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def wrapped(value: Lanes, kind: str) -> Lanes:
    """A value in the range of an integer type such as s32, u16 or b64; other types leave 64 bits."""
    if value is None:
        return None
    bits, signed = WIDTHS.get(kind, (64, True))
    if isinstance(value, int):
        if 0 <= value < 1 << (bits - 1):
            return value
        low = value & ((1 << bits) - 1)
        return low - (1 << bits) if signed and low >> (bits - 1) else low
    if bits == 64:
        return value
    low_lanes = value & ((1 << bits) - 1)
    return low_lanes - ((low_lanes >> (bits - 1)) << bits) if signed else low_lanes


def folded(value: Array) -> Lanes:
    """One number where all lanes agree."""
    return int(value[0]) if (value == value[0]).all() else value


def spread(value: int | Array) -> Array:
    """A known value as an array."""
    return np.full(WARP, value, dtype=np.int64) if isinstance(value, int) else value


def divided(a: int | Array, b: int | Array, *, remainder: bool) -> Lanes:
    """Quotient or remainder, rounded towards zero as the machine does; unknown where a divisor is zero."""
    x, y = spread(a), spread(b)
    if not y.all():
        return None
    quotient: Array = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return folded(x - quotient * y if remainder else quotient)


def shifted(a: int | Array, by: int | Array, *, left: bool, bits: int) -> Lanes:
    """A shift; by the width or more it shifts everything out."""
    if isinstance(a, int) and isinstance(by, int):
        if left:
            return a << by if 0 <= by < bits else 0
        return a >> min(by, bits - 1) if by >= 0 else 0
    x, n = spread(a), np.clip(spread(by), 0, 63)
    return folded(np.where(n >= bits, 0, x << n) if left else x >> np.minimum(n, bits - 1))


def chosen(condition: Lanes, yes: Lanes, no: Lanes) -> Lanes:
    """Per lane, one of two values."""
    if isinstance(condition, int):
        return yes if condition else no
    if yes is None or no is None:
        return None
    if condition is None:
        return yes if same(yes, no) else None
    return folded(np.where(condition != 0, spread(yes), spread(no)))


def same(a: Lanes, b: Lanes) -> bool:
    """Whether two values agree in all lanes, or are both unknown."""
    if a is None or b is None or (isinstance(a, int) and isinstance(b, int)):
        return a is b if a is None or b is None else a == b
    return bool((spread(a) == spread(b)).all())
