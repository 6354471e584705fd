"""Times of other people's files in microseconds. A time no kernel can take is a wrong unit, and is refused."""

from __future__ import annotations

from kbench.loaders.importers.context import UNITS
from kbench.loaders.importers.fields import RowError, is_number

PLAUSIBLE_US = (0.1, 1e8)
"""No kernel is launched and done in less than a tenth of a microsecond; none here runs for minutes."""


def microseconds(value: object, unit: str, field: str) -> float:
    """A time as microseconds.

    Raises:
        RowError: it is no positive number, or not a time a kernel can take in this unit.
    """
    if not is_number(value) or value <= 0:
        raise RowError(field, value, "must be a positive number")
    found = float(value) * UNITS[unit]
    low, high = PLAUSIBLE_US
    if not low <= found <= high:
        raise RowError(field, value, f"is no time a kernel takes in {unit}; the value or its unit is wrong")
    return found
