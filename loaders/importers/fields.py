"""Typed access to foreign values: what is not as it must be is a `RowError` that names field, value and rule."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, TypeVar

from kbench.schemas.ids import content_hash

SHOWN_CHARACTERS = 60
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
"""Microseconds in one of each."""
PLAUSIBLE_US = (0.1, 1e8)
"""No kernel is launched and done in less than a tenth of a microsecond; none here runs for minutes."""


LARGEST_SOURCE = 1_000_000
"""Characters of a kernel's text."""
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])?")
"""Terminal escapes: colours, cursor movements, titles."""
NOT_SPELLED = re.compile(r"""[^\sA-Za-z0-9_.,:;/()\[\]'"-]|(?<![A-Za-z0-9])-(?=[0-9.])""")
"""What tells names apart and is lost in lower snake case: letters of other scripts, operators, signs of numbers."""
T = TypeVar("T")


class RowError(Exception):
    """One row cannot be imported."""

    def __init__(self, field: str, value: object, message: str) -> None:
        super().__init__(f"{field} is {shown(value)}: {message}")
        self.field, self.value, self.message = field, shown(value), message


def shown(value: object) -> str:
    """A value for an error message: short, and with every character visible."""
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def plain(value: str) -> str:
    """A text for people: without terminal escapes, control characters other than line breaks, and half characters."""
    if value.isprintable():
        return value
    bare = ESCAPES.sub("", value.replace("\r\n", "\n"))
    kept = "".join(char if char in "\n\t" or char.isprintable() else " " for char in bare)
    return kept.encode("utf-8", "replace").decode("utf-8")


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a finite number that a float can hold, and not a truth value."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) <= sys.float_info.max


def positive(data: Mapping[str, Any], field: str) -> float:
    """A number above zero; sentinels such as -1 are refused, not read."""
    value = data.get(field)
    if not is_number(value) or value <= 0:
        raise RowError(field, value, "must be a positive number")
    return float(value)


def microseconds(value: object, unit: str, field: str) -> float:
    """A time in microseconds.

    Raises:
        RowError: it is no positive number, or no time a kernel can take in this unit, so that the unit is wrong.
    """
    time_us = positive({field: value}, field) * UNITS[unit]
    low, high = PLAUSIBLE_US
    if not low <= time_us <= high:
        raise RowError(field, value, f"is no time a kernel takes in {unit}; the value or its unit is wrong")
    return time_us


def optional(read: Callable[[Mapping[str, Any], str], T], data: Mapping[str, Any], field: str) -> T | None:
    """What a reader of these makes of a value, or nothing where there is none."""
    return None if data.get(field) is None else read(data, field)


def non_negative(data: Mapping[str, Any], field: str) -> float | None:
    """A number of at least zero, or nothing."""
    value = data.get(field)
    if value is None:
        return None
    if not is_number(value) or value < 0:
        raise RowError(field, value, "must be a number of at least 0")
    return float(value)


def whole(data: Mapping[str, Any], field: str, minimum: int = 0) -> int:
    """An integer of at least `minimum`."""
    value = data.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value < 2**63:
        raise RowError(field, value, f"must be an integer of at least {minimum}")
    return value


def truth(data: Mapping[str, Any], field: str) -> bool:
    """True or false."""
    value = data.get(field)
    if not isinstance(value, bool):
        raise RowError(field, value, "must be true or false")
    return value


def text(data: Mapping[str, Any], field: str) -> str:
    """A text with something in it."""
    value = data.get(field)
    if not isinstance(value, str) or not value.strip():
        raise RowError(field, value, "must be non-empty text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RowError(field, value, "holds half of a UTF-16 surrogate pair, which is not a character") from None
    return value


def one_of(value: Any, field: str, allowed: Iterable[str]) -> str:
    """A word of a closed list."""
    words = list(allowed)
    if value not in words:
        raise RowError(field, value, f"must be one of {', '.join(words)}")
    return str(value)


def name_text(data: Mapping[str, Any], field: str) -> str | None:
    """A name to be shown, such as a GPU's; nothing when it is missing or blank."""
    value = data.get(field)
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    stated = text(data, field)
    if not stated.isprintable():
        raise RowError(field, value, "holds control characters; a name has none")
    return stated.strip()


def source_text(data: Mapping[str, Any], field: str) -> str:
    """A kernel's text."""
    source = text(data, field)
    if len(source) > LARGEST_SOURCE:
        raise RowError(field, source, f"has {len(source):,} characters; a kernel has at most {LARGEST_SOURCE:,}")
    if "\0" in source:
        raise RowError(field, source, "holds a NUL character; it is no program text")
    return source.removeprefix("\ufeff")


def optional_text(data: Mapping[str, Any], field: str) -> str | None:
    """A text, or nothing; an empty one is nothing."""
    value = data.get(field)
    return None if value is None or value == "" else text(data, field)


def json_value(data: bytes | str, what: str, place: object) -> Any:
    """The value of a JSON text that was found in a file or a field."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RowError(what, place, f"is no JSON ({type(error).__name__})") from None


def an_object(value: object, what: str) -> Mapping[str, Any]:
    """A record."""
    if not isinstance(value, Mapping):
        raise RowError(what, value, "must be an object")
    return value


def mapping(data: Mapping[str, Any], field: str) -> Mapping[str, Any]:
    """A nested object."""
    return an_object(data.get(field), field)


def sequence(data: Mapping[str, Any], field: str) -> Sequence[Any]:
    """A list."""
    value = data.get(field)
    if not isinstance(value, list):
        raise RowError(field, value, "must be a list")
    return value


def slug(value: str, field: str) -> str:
    """A name in lower snake case, as ids here are; a hash follows where that would make different names one.

    Raises:
        RowError: nothing of the value is left, or what is left does not begin with a letter.
    """
    name = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_")
    if re.fullmatch(r"[a-z][a-z0-9_]*", name) is None:
        raise RowError(field, value, "cannot be made a name of letters, digits and underscores")
    if NOT_SPELLED.search(value) is None:
        return name
    return f"{name}_{content_hash('name', value.encode(errors='surrogatepass'))[:8]}"
