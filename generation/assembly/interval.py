"""Interval: a positive figure with its 95 % interval."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A positive figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def over(self, other: Interval) -> Interval:
        """This figure divided by an independent one; log half-widths add in quadrature."""
        value = self.value / other.value
        down = math.hypot(math.log(self.value / self.low), math.log(other.high / other.value))
        up = math.hypot(math.log(self.high / self.value), math.log(other.value / other.low))
        return Interval(value, value * math.exp(-down), value * math.exp(up))
