"""Records from plain JSON values, read strictly, and back."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from kbench.schemas.errors import DataError
from kbench.schemas.record import FieldType, Limit, Record, field_types, optional_fields

R = TypeVar("R", bound=Record)
SCALARS = (str, int, float, bool)
PLAIN = {*SCALARS, type(None)}
"""Types that JSON has too."""
Place = tuple[Any, ...]
"""A record's name, then fields and positions down to a value. Only an error puts it into words: logs have millions of
values."""


def _at(place: Place) -> str:
    first, *rest = place
    return str(first) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest)


def _read(field: FieldType, value: Any, place: Place) -> Any:
    if value is None:
        if field.optional:
            return None
        raise DataError(f"{_at(place)} is null; it must be set")
    if field.base in SCALARS:
        return _read_scalar(field, value, place)
    if field.base is tuple:
        assert field.item is not None
        if not isinstance(value, list | tuple):
            raise DataError(f"{_at(place)} is {value!r}; it must be a list")
        if _all_plain(field.item, value):
            return tuple(value)
        return tuple([_read(field.item, item, (*place, at)) for at, item in enumerate(value)])
    if issubclass(field.base, Record):
        return _record(field.base, value, place)
    assert issubclass(field.base, enum.StrEnum)
    try:
        return field.base(value)
    except ValueError:
        raise DataError(f"{_at(place)} is {value!r}; it must be one of {[m.value for m in field.base]}") from None


def _all_plain(field: FieldType, values: Sequence[Any]) -> bool:
    """Whether values are numbers that are all of the type and within the bounds; samples are read many at a time."""
    if field.base not in (int, float) or not values or set(map(type, values)) != {field.base}:
        return False
    least, most, limit = min(values), max(values), field.limit or Limit()
    return (
        # A value that is not a number hides from min and max, not from a sum.
        (field.base is int or math.isfinite(sum(values)))
        and (limit.minimum is None or least >= limit.minimum)
        and (limit.exclusive_minimum is None or least > limit.exclusive_minimum)
        and (limit.maximum is None or most <= limit.maximum)
    )


def _read_scalar(field: FieldType, value: Any, place: Place) -> Any:
    if type(value) is not field.base:
        value = _as_scalar(field.base, value, place)
    if field.base is float and not math.isfinite(value):
        raise DataError(f"{_at(place)} is {value!r}; it must be finite (use null for 'not measured')")
    if field.limit is not None:
        _check_limit(field.limit, value, place)
    return value


def _as_scalar(base: type, value: Any, place: Place) -> Any:
    """A value whose type is not the declared one, but may stand for it."""
    if base is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise DataError(f"{_at(place)} is too large") from None
    if not isinstance(value, base) or isinstance(value, bool):
        raise DataError(f"{_at(place)} is {value!r} ({type(value).__name__}); it must be {base.__name__}")
    return value


def _check_limit(limit: Limit, value: Any, place: Place) -> None:
    if limit.minimum is not None and value < limit.minimum:
        raise DataError(f"{_at(place)} is {value!r}; it must be at least {limit.minimum:g}")
    if limit.exclusive_minimum is not None and value <= limit.exclusive_minimum:
        raise DataError(f"{_at(place)} is {value!r}; it must be more than {limit.exclusive_minimum:g}")
    if limit.maximum is not None and value > limit.maximum:
        raise DataError(f"{_at(place)} is {value!r}; it must be at most {limit.maximum:g}")
    # fullmatch, because `$` alone lets a final newline through, which JSON Schema and Arrow do not.
    if limit.pattern is not None and re.fullmatch(limit.pattern, value) is None:
        raise DataError(f"{_at(place)} is {value!r}; it must match {limit.pattern}")


def from_dict(record: type[R], data: Mapping[str, Any], where: str = "") -> R:
    """Read a record strictly: unknown fields, wrong types and values out of bounds are refused.

    Raises:
        DataError: names the field, its value and what it must be.
    """
    return _record(record, data, (where or record.TYPE,))


def _record(record: type[R], data: Mapping[str, Any], place: Place) -> R:
    if not isinstance(data, Mapping):
        raise DataError(f"{_at(place)} is {data!r:.80}; it must be an object")
    fields = field_types(record)
    unknown = sorted(data.keys() - fields.keys())
    if unknown:
        raise DataError(f"{_at(place)} has unknown field {unknown[0]!r}; known fields: {', '.join(fields)}")
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            values[name] = _read(field, data[name], (*place, name))
        elif name not in optional_fields(record):
            raise DataError(f"{_at(place)}.{name} is missing; it must be set")
    return record(**values)


def _write(value: Any) -> Any:
    if isinstance(value, Record):
        return to_dict(value)
    if isinstance(value, enum.StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return list(value) if set(map(type, value)) <= PLAIN else [_write(item) for item in value]
    return value


def to_dict(value: Record) -> dict[str, Any]:
    """The record as plain JSON values, fields in declared order."""
    return {field.name: _write(getattr(value, field.name)) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
