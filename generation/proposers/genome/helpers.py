"""What headers and templates compute beyond arithmetic: blank lines, exported instances, index arithmetic as text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace

__all__ = [
    "HINTS",
    "Convolution",
    "Stencil",
    "Window",
    "compact",
    "instances",
    "roots",
    "sides",
    "tidy",
    "without_suffix",
]
"""Names that a header may use."""

HINTS = {
    "plain": "", "ca": ', cache_modifier=".ca"', "cg": ', cache_modifier=".cg"', "cs": ', cache_modifier=".cs"',
    "wt": ', cache_modifier=".wt"', "first": ', eviction_policy="evict_first"',
    "evict_first": ', eviction_policy="evict_first"', "last": ', eviction_policy="evict_last"',
}  # fmt: skip
"""Arguments of Triton's loads and stores that steer the caches."""
AXES = ("d", "h", "w")
"""Spatial axes, slowest first."""


def instances(vector: int, *functions: str) -> str:
    """The instances a module exports, for packs of `vector` elements and of one, as the inside of a tuple."""
    names = [f'"{name}<{width}>"' for name in functions for width in dict.fromkeys((vector, 1))]
    return ", ".join(names) + ("," if len(names) == 1 else "")


def roots(radix: int, part: str) -> list[str]:
    """Cosines or sines of the roots of unity, as text."""
    return [f"{getattr(math, part)(-2 * math.pi * k / radix):.9g}" for k in range(radix)]


def sides(text: str) -> tuple[int, int]:
    """The numbers of a tile such as 2x4."""
    down, across = text.split("x")
    return int(down), int(across)


def without_suffix(code: str) -> str:
    """A CUDA expression without the f of its numbers."""
    return re.sub(r"(\d)f\b", r"\1", code)


def tidy(code: str) -> str:
    """Macros leave blank lines; functions get two before them and nothing else any."""
    lines = [line for line in code.split("\n") if line.strip()]
    spaced = [f"\n\n{line}" if line.startswith(("@", "def run")) and i else line for i, line in enumerate(lines)]
    return "\n".join(spaced) + "\n"


def compact(code: str) -> str:
    """Macros leave blank lines before indented code; those go."""
    lines = code.split("\n")
    return "\n".join(
        line
        for i, line in enumerate(lines)
        if line.strip() or i + 1 == len(lines) or not lines[i + 1].startswith((" ", "#pragma"))
    )


def packed(code: str) -> str:
    """Code without the blank lines that macros leave."""
    return "\n".join([line for line in code.split("\n") if line and not line.isspace()]) + "\n"


def flush(code: str) -> str:
    """Code without blank lines and without indentation."""
    return "\n".join(filter(None, map(str.strip, code.split("\n")))) + "\n"


def braced(code: str) -> str:
    """CUDA code without blank lines, indented by its braces; a line that begins with + continues the one before."""
    depth, lines = 0, []
    for line in map(str.strip, code.split("\n")):
        if line:
            depth -= line[0] == "}"
            lines.append("    " * (depth + (line[0] == "+")) + line)
            depth += line[-1] == "{"
    return "\n".join(lines) + "\n"


def times(name: str, factor: int) -> str:
    """A product as text; a factor of one is left out."""
    return name if factor == 1 else f"{name} * {factor}"


FILTERS: dict[str, Callable[..., str]] = {"packed": packed, "flush": flush, "braced": braced, "times": times}
"""Functions that templates apply to text with `|`."""


def nest(coordinates: Sequence[str], sizes: Sequence[str]) -> str:
    """Row-major offset of coordinates in a box, Horner style."""
    text = coordinates[0]
    for coordinate, size in zip(coordinates[1:], sizes[1:], strict=True):
        text = f"({text}) * {size} + {coordinate}"
    return text


class Sliding:
    """A filter that slides over one to three axes: a problem's facts, and index arithmetic as text.

    Patterns name something of an axis, such as in_{}.
    """

    taps: tuple[int, ...]
    stride: int
    dilation: int
    padding: int

    def __init__(self, facts: SimpleNamespace) -> None:
        vars(self).update(vars(facts))
        self.axes = AXES[3 - len(self.taps) :]
        self.loops = list(zip(self.axes, self.taps, strict=True))
        self.tap_count = math.prod(self.taps)

    def names(self, pattern: str) -> list[str]:
        """The pattern for each axis."""
        return [pattern.format(axis) for axis in self.axes]

    def listed(self, pattern: str) -> str:
        """The names with commas between them."""
        return ", ".join(self.names(pattern))

    def volume(self, pattern: str) -> str:
        """The names' product."""
        return " * ".join(self.names(pattern))

    def offset(self, place: str, size: str) -> str:
        """Row-major offset of a place in a box."""
        return nest(self.names(place), self.names(size))

    def tap(self, place: str = "k{}") -> str:
        """Index of a tap in the filter."""
        return nest(self.names(place), [str(taps) for taps in self.taps])

    def reach(self, axis: str, outputs: int) -> int:
        """Inputs along an axis that a run of outputs meets; one where there is no such axis."""
        if axis not in self.axes:
            return 1
        return (outputs - 1) * self.stride + self.dilation * (self.taps[self.axes.index(axis)] - 1) + 1


class Convolution(Sliding):
    """A dense or grouped convolution with what follows it (facts: `spatial/convolutions.toml`)."""

    groups: int
    transposed: bool
    channel_inputs: tuple[str, ...]
    before: str
    window: int
    combine: str
    after: str
    total: bool

    def __init__(self, facts: SimpleNamespace) -> None:
        super().__init__(facts)
        self.over_channels = self.combine == "min"
        self.plain = self.window == 1 and not self.over_channels and not self.total
        self.has_epilogue = self.before != "v" or not self.plain
        self.phased = self.transposed and self.stride > 1
        self.exponential = any(map(self.uses, ("tanh_", "sigmoid", "mish")))

    @property
    def bare(self) -> Convolution:
        """The convolution alone; a finishing pass does the rest."""
        nothing = {"channel_inputs": (), "before": "v", "window": 1, "combine": "", "after": "v", "total": False}
        return Convolution(SimpleNamespace(**{**vars(self), **nothing}))

    def uses(self, function: str) -> bool:
        """Whether an expression calls a function."""
        return f"{function}(" in self.before + self.after

    def upper(self, pattern: str) -> list[str]:
        """The pattern for each axis in capitals."""
        return [pattern.format(axis.upper()) for axis in self.axes]

    def phased_tap(self) -> str:
        """Index of a tap in the filter, from its number among the taps of a phase."""
        return nest([f"(FIRST_{a.upper()} + {self.stride} * k{a})" for a in self.axes], [str(t) for t in self.taps])

    def nested(self, places: Sequence[str]) -> str:
        """Offset of places in the input."""
        return nest(places, self.names("in_{}"))

    def arguments(self, target: str) -> str:
        """Arguments of a CUDA function that writes to `target`."""
        groups = ["group_in", "group_out"] if self.groups > 1 else []
        names = ["x", "weight", *self.channel_inputs, target, "n", "c_in", "c_out", *groups]
        return ", ".join([*names, *self.names("in_{}"), *self.names("out_{}")])


class Window(Sliding):
    """Sliding windows that every channel reduces on its own (facts: `spatial/windows.toml`)."""

    op: str
    causal: bool
    silu: bool

    def __init__(self, facts: SimpleNamespace) -> None:
        super().__init__(facts)
        self.weighted = self.op == "weighted"
        self.inputs = ("x", *(("weight",) if self.weighted else ()), *(("bias",) if self.silu else ()))
        self.padded_taps = 1 << (self.tap_count - 1).bit_length()
        """Taps of a window, rounded up to a power of two."""

    def output_extent(self, axis: str) -> str:
        """Python text of an axis's output extent."""
        if self.causal:
            return f"in_{axis}"
        return f"(in_{axis} - {self.reach(axis, 1) - 2 * self.padding}) // {self.stride} + 1"

    def input_place(self, place: str, tap: str) -> str:
        """Text of the input coordinate that a tap meets."""
        shift = f" - {self.padding}" if self.padding else ""
        return f"{times(place, self.stride)}{shift} + {times(tap, self.dilation)}"

    def row(self) -> str:
        """Offset of column `c` in the row that the other axes' taps meet."""
        return nest([*self.names("i{}")[:-1], "c"], self.names("in_{}"))

    def passes(self, outer_first: bool) -> list[tuple[str, str, str]]:
        """Passes along one axis each: the axis, the extents of what it writes, and how many values lie inside it."""
        current, steps = [*self.names("in_{}")], []
        for at in range(len(self.axes))[:: 1 if outer_first else -1]:
            inner = " * ".join(current[at + 1 :]) or "1"
            current[at] = f"out_{self.axes[at]}"
            steps.append((self.axes[at], ", ".join(current), inner))
        return steps


class Stencil:
    """A star stencil on field `u` (facts: `spatial/stencils.toml`)."""

    dimensions: int
    radius: int

    def __init__(self, facts: SimpleNamespace) -> None:
        vars(self).update(vars(facts))
        self.axes = AXES[3 - self.dimensions :]
        self.sizes = tuple(f"size_{axis}" for axis in self.axes)
        distances = [sign * reach for reach in range(1, self.radius + 1) for sign in (-1, 1)]
        self.neighbours = tuple((axis, distance) for axis in self.axes for distance in distances)

    def name(self, axis: str, distance: int) -> str:
        """Variable that holds a cell, such as h_m1 or w_p2; the centre is u."""
        return f"{axis}_{'p' if distance > 0 else 'm'}{abs(distance)}" if distance else "u"

    def nest(self, coordinates: Sequence[str]) -> str:
        """Row-major offset of coordinates in the grid."""
        return nest(coordinates, self.sizes)

    def place(self, axis: str = "", distance: int = 0) -> str:
        """Offset of a neighbour in the grid."""
        moved = f"({axis} {'-' if distance < 0 else '+'} {abs(distance)})"
        return self.nest([moved if distance and a == axis else a for a in self.axes])
