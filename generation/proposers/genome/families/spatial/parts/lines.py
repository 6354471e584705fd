"""Lines of generated code, and the index arithmetic they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

AXES = ("d", "h", "w")
"""Spatial axes, slowest first."""


class Spatial(Protocol):
    """Whatever has spatial axes."""

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, slowest first."""


def indent(lines: Sequence[str], levels: int = 1) -> list[str]:
    """Lines moved right by four spaces per level; empty lines stay empty."""
    return ["    " * levels + line if line else line for line in lines]


def extents(form: Spatial, prefix: str) -> list[str]:
    """Names of the extents along each axis, such as in_h, in_w."""
    return [f"{prefix}_{axis}" for axis in form.axes]


def product(names: Sequence[str]) -> str:
    """A product as text."""
    return " * ".join(names)


def nest(coordinates: Sequence[str], sizes: Sequence[str]) -> str:
    """Row-major offset of coordinates in a box, Horner style."""
    text = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        text = f"({text}) * {size} + {coordinate}"
    return text
