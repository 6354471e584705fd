"""Taps along spatial axes, and the index arithmetic of kernels that slide over them."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

AXES = ("d", "h", "w")
"""Spatial axes, slowest first."""


def nest(coordinates: Sequence[str], sizes: Sequence[str]) -> str:
    """Row-major offset of coordinates in a box, Horner style."""
    text = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        text = f"({text}) * {size} + {coordinate}"
    return text


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SlidingForm:
    """A filter that slides over one to three axes. Patterns name something of an axis, such as in_{}.

    Forms are few and live as long as the program, so their texts are made once.
    """

    problem: str
    taps: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    padding: int = 0
    half: bool = False

    @functools.cached_property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, slowest first."""
        return AXES[3 - len(self.taps) :]

    @functools.cached_property
    def loops(self) -> list[tuple[str, int]]:
        """Every axis with its number of taps."""
        return list(zip(self.axes, self.taps, strict=True))

    @functools.cached_property
    def tap_count(self) -> int:
        """Elements of the filter."""
        return math.prod(self.taps)

    @functools.cache  # noqa: B019 - see the class
    def names(self, pattern: str) -> list[str]:
        """The pattern for each axis."""
        return [pattern.format(axis) for axis in self.axes]

    @functools.cache  # noqa: B019 - see the class
    def listed(self, pattern: str) -> str:
        """The names with commas between them."""
        return ", ".join(self.names(pattern))

    @functools.cache  # noqa: B019 - see the class
    def volume(self, pattern: str) -> str:
        """The names' product."""
        return " * ".join(self.names(pattern))

    @functools.cache  # noqa: B019 - see the class
    def offset(self, place: str, size: str) -> str:
        """Row-major offset of a place in a box."""
        return nest(self.names(place), self.names(size))

    @functools.cache  # noqa: B019 - see the class
    def tap(self, place: str = "k{}") -> str:
        """Index of a tap in the filter."""
        return nest(self.names(place), [str(taps) for taps in self.taps])

    def reach(self, axis: str, outputs: int) -> int:
        """Inputs along an axis that a run of outputs meets; one where there is no such axis."""
        if axis not in self.axes:
            return 1
        return (outputs - 1) * self.stride + self.dilation * (self.taps[self.axes.index(axis)] - 1) + 1
