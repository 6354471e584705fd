"""Records from plain JSON values, read strictly, and back."""

from __future__ import annotations

import dataclasses
import enum
import math
import re
from collections.abc import Mapping
from typing import Any, TypeVar

from kbench.schemas.errors import DataError
from kbench.schemas.record import FieldType, Limit, Record, field_types

R = TypeVar("R", bound=Record)


def _read(field: FieldType, value: Any, where: str) -> Any:
    if value is None:
        if field.optional:
            return None
        raise DataError(f"{where} is null; it must be set")
    if field.base is tuple:
        assert field.item is not None
        if not isinstance(value, list | tuple):
            raise DataError(f"{where} is {value!r}; it must be a list")
        return tuple(_read(field.item, item, f"{where}[{i}]") for i, item in enumerate(value))
    if issubclass(field.base, Record):
        return from_dict(field.base, value, where=where)
    if issubclass(field.base, enum.StrEnum):
        try:
            return field.base(value)
        except ValueError:
            raise DataError(f"{where} is {value!r}; it must be one of {[m.value for m in field.base]}") from None
    return _read_scalar(field, value, where)


def _read_scalar(field: FieldType, value: Any, where: str) -> Any:
    if field.base is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, field.base) or (field.base is int and isinstance(value, bool)):
        raise DataError(f"{where} is {value!r} ({type(value).__name__}); it must be {field.base.__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise DataError(f"{where} is {value!r}; it must be finite (use null for 'not measured')")
    if field.limit is not None:
        _check_limit(field.limit, value, where)
    return value


def _check_limit(limit: Limit, value: Any, where: str) -> None:
    if limit.minimum is not None and value < limit.minimum:
        raise DataError(f"{where} is {value!r}; it must be at least {limit.minimum:g}")
    if limit.exclusive_minimum is not None and value <= limit.exclusive_minimum:
        raise DataError(f"{where} is {value!r}; it must be more than {limit.exclusive_minimum:g}")
    if limit.maximum is not None and value > limit.maximum:
        raise DataError(f"{where} is {value!r}; it must be at most {limit.maximum:g}")
    # fullmatch, because `$` alone lets a final newline through, which JSON Schema and Arrow do not.
    if limit.pattern is not None and re.fullmatch(limit.pattern, value) is None:
        raise DataError(f"{where} is {value!r}; it must match {limit.pattern}")


def from_dict(record: type[R], data: Mapping[str, Any], where: str = "") -> R:
    """Read a record strictly: unknown fields, wrong types and values out of bounds are refused.

    Raises:
        DataError: names the field, its value and what it must be.
    """
    where = where or record.TYPE
    if not isinstance(data, Mapping):
        raise DataError(f"{where} is {data!r}; it must be an object")
    known = field_types(record)
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise DataError(f"{where} has unknown field {unknown[0]!r}; known fields: {', '.join(known)}")
    values: dict[str, Any] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        if field.name in data:
            values[field.name] = _read(known[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING:
            raise DataError(f"{where}.{field.name} is missing; it must be set")
    return record(**values)


def _write(value: Any) -> Any:
    if isinstance(value, Record):
        return to_dict(value)
    if isinstance(value, enum.StrEnum):
        return value.value
    if isinstance(value, tuple | list):
        return [_write(item) for item in value]
    return value


def to_dict(value: Record) -> dict[str, Any]:
    """The record as plain JSON values, fields in declared order."""
    return {field.name: _write(getattr(value, field.name)) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
