"""What a reader follows: numbers, tuples, tensors of known shape, and launches. None is what is unknown."""

from __future__ import annotations

import ast
import dataclasses
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

MOST = 2.0**62
"""Numbers beyond are no sizes."""
NUMERIC = frozenset((int, float, bool))
LONGEST = 64
"""Iterations of a loop that are followed, and the longest tuple."""
ALLOCATIONS = frozenset(("empty", "zeros", "ones", "full", "new_empty", "new_zeros"))
ALIKE = frozenset(("empty_like", "zeros_like", "ones_like", "full_like"))
SAME = frozenset(("contiguous", "to", "clone", "detach", "float"))
VIEWS = frozenset(("view", "reshape"))


class UnreadableError(Exception):
    """What is launched cannot be told, or not without more work than any honest kernel asks for."""


def is_number(value: Any) -> bool:
    """Whether it is a number that may be a size."""
    return type(value) in NUMERIC and -MOST < value < MOST


def product(values: Any) -> float | None:
    """Of one number or a tuple of them."""
    if is_number(values):
        return float(values)
    if not isinstance(values, tuple) or not all(map(is_number, values)):
        return None
    total = math.prod(map(float, values))
    return total if abs(total) < MOST else None


def short(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tuple."""
    if len(values) > LONGEST:
        raise UnreadableError
    return values


@dataclasses.dataclass(slots=True)
class Tensor:
    """A tensor's shape; None where it is unknown."""

    shape: tuple[Any, ...] | None

    @property
    def elements(self) -> float | None:
        """How many there are."""
        return product(self.shape) if self.shape is not None else None

    def method(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """What a method gives."""
        first = arguments[0] if arguments else None
        if name == "numel":
            elements = self.elements
            return int(elements) if elements is not None else None
        if name == "size" and self.shape is not None:
            return (
                self.shape[first]
                if isinstance(first, int) and -len(self.shape) <= first < len(self.shape)
                else self.shape
            )
        if name == "dim" and self.shape is not None:
            return len(self.shape)
        if name in SAME:
            return self
        return Tensor(self._viewed(first if isinstance(first, tuple) else arguments)) if name in VIEWS else None

    def _viewed(self, shape: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """A shape in which −1 stands for the rest."""
        if shape.count(-1) != 1:
            return shape
        others, whole = product(tuple(each for each in shape if each != -1)), self.elements
        if not others or whole is None:
            return None
        rest = whole // others
        return tuple(int(rest) if each == -1 else each for each in shape) if is_number(rest) else None


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One launch: blocks of the grid and threads per block, None where unknown."""

    blocks: float | None
    threads: float | None
    shared_bytes: float


@dataclasses.dataclass(slots=True)
class Trace:
    """Everything `run` launches and allocates for one workload."""

    launches: list[Launch]
    allocated: float = 0.0
    """Elements, outputs included."""
    cleared: float = 0.0
    """Elements of it that are filled first."""

    def allocate(self, tensor: Tensor, *, cleared: bool) -> Tensor:
        """Count a tensor's elements."""
        elements = tensor.elements or 0.0
        self.allocated += elements
        self.cleared += elements if cleared else 0.0
        return tensor


OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.RShift: operator.rshift,
    ast.Pow: lambda base, exponent: base**exponent if 0 <= exponent <= LONGEST else None,
    ast.LShift: lambda base, places: base << places if 0 <= places <= LONGEST else None,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
SIGNS: Mapping[type, Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos,
    ast.Invert: lambda value: ~int(value) if isinstance(value, int) else None,
}  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "int": int, "abs": abs, "ceil": math.ceil,
    "cdiv": lambda value, by: -(-value // by),
    "next_power_of_2": lambda value: 1 << max(int(value) - 1, 0).bit_length(),
    "sqrt": lambda value: math.sqrt(max(value, 0.0)), "log2": lambda value: math.log2(max(value, 1)),
    "bit_length": lambda value: int(value).bit_length(),
}  # fmt: skip
KNOWN_CALLS = frozenset(FUNCTIONS) | ALLOCATIONS | ALIKE | SAME | VIEWS | {"range", "numel", "size", "dim"}
"""Functions and methods whose results are known."""


def computed(work: Callable[..., Any] | None, *numbers: Any) -> Any:
    """What a function gives for numbers."""
    if work is None or not numbers or not all(map(is_number, numbers)):
        return None
    try:
        return work(*numbers)
    except (ArithmeticError, TypeError, ValueError):
        return None


def combined(kind: type, left: Any, right: Any) -> Any:
    """Two numbers combined by an operator, or two tuples joined."""
    if kind is ast.Add and isinstance(left, tuple) and isinstance(right, tuple):
        return short(left + right)
    return computed(OPERATORS.get(kind), left, right)
