"""Charts as SVG text: axes, bars, boxes and lines. Equal data gives equal bytes, and no plotting library is loaded."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Sequence

INK, FAINT, GRID = "#1f2328", "#656d76", "#d8dee4"
COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df", "#bf3989", "#7d4e00")
FONT = "font-family='Helvetica,Arial,sans-serif'"


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """Values to positions, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """The position of a value; values outside end at the edge."""
        turn: Callable[[float], float] = math.log if self.log else float
        value = min(max(value, self.low), self.high)
        share = (turn(value) - turn(self.low)) / (turn(self.high) - turn(self.low))
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round values to mark."""
        if self.log:
            exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            factors = (1, 2, 5) if self.high / self.low < 2000 else (1,)
            marks = [factor * 10.0**exponent for exponent in exponents for factor in factors]
        else:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) or 1.0))
            step = next(s for s in (step / 5, step / 2, step, 2 * step) if (self.high - self.low) / s <= 6)
            marks = [step * n for n in range(math.ceil(self.low / step), math.floor(self.high / step + 1e-9) + 1)]
        return [mark for mark in marks if self.low * (1 - 1e-9) <= mark <= self.high * (1 + 1e-9)]


class Drawing:
    """An SVG being drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        """Start an empty drawing with a title on top."""
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []
        self.text(12, 22, title, size=14, bold=True)

    def text(
        self, x: float, y: float, words: str, *, size: int = 11, anchor: str = "start", colour: str = INK,
        bold: bool = False, turned: bool = False,
    ) -> None:  # fmt: skip
        """Write words at a position."""
        turn = f" transform='rotate(-90 {x:.1f} {y:.1f})'" if turned else ""
        weight = " font-weight='600'" if bold else ""
        self._parts.append(
            f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' text-anchor='{anchor}' fill='{colour}'{weight}{turn}>"
            f"{html.escape(words)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = GRID, width: float = 1) -> None:
        """Draw a straight line."""
        self._parts.append(
            f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' stroke-width='{width}'/>"
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str, opacity: float = 1) -> None:
        """Draw a filled rectangle."""
        self._parts.append(
            f"<rect x='{x:.1f}' y='{y:.1f}' width='{max(width, 0):.1f}' height='{max(height, 0):.1f}' "
            f"fill='{colour}' fill-opacity='{opacity}'/>"
        )

    def path(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        """Draw a line through points."""
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(f"<polyline points='{joined}' fill='none' stroke='{colour}' stroke-width='2'/>")

    def across(self, scale: Scale, top: float, bottom: float, label: str) -> None:
        """Grid lines and marks of a horizontal axis under `bottom`."""
        for mark in scale.ticks():
            self.line(scale(mark), top, scale(mark), bottom)
            self.text(scale(mark), bottom + 15, f"{mark:,.4g}", anchor="middle", colour=FAINT)
        self.text((scale.start + scale.end) / 2, bottom + 33, label, anchor="middle", colour=FAINT)

    def upright(self, scale: Scale, left: float, right: float, label: str) -> None:
        """Grid lines and marks of a vertical axis left of `left`."""
        for mark in scale.ticks():
            self.line(left, scale(mark), right, scale(mark))
            self.text(left - 6, scale(mark) + 4, f"{mark:,.4g}", anchor="end", colour=FAINT)
        self.text(16, (scale.start + scale.end) / 2, label, anchor="middle", colour=FAINT, turned=True)

    def legend(self, names: Sequence[str], x: float, y: float) -> None:
        """Names beside their colours, one under the other."""
        for position, name in enumerate(names):
            self.box(x, y + 17 * position - 9, 11, 11, COLOURS[position % len(COLOURS)])
            self.text(x + 17, y + 17 * position, name)

    def render(self) -> str:
        """The SVG."""
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {self.width} {self.height}' width='{self.width}' "
            f"height='{self.height}' role='img' aria-label='{html.escape(self.title)}' {FONT}>\n"
            f"<rect width='{self.width}' height='{self.height}' fill='#ffffff'/>\n"
            + "\n".join(self._parts)
            + "\n</svg>\n"
        )
