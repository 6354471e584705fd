"""Values that filters compare columns with, in the type the column is declared with: so libraries read them alike."""

from __future__ import annotations

import numbers
from typing import Any

from kbench.schemas import UserError
from kbench.schemas.record import FieldType

INTEGERS = range(-(2**63), 2**63)
"""What an integer column can hold."""
WORDS = {str: "text", int: "whole numbers", float: "numbers", bool: "true or false"}


def kind_of(name: str, field: FieldType) -> type:
    """What a column's values are: str, int, float or bool.

    Raises:
        UserError: they are lists or records, which no filter compares.
    """
    found = next((kind for kind in (str, bool, int, float) if issubclass(field.base, kind)), None)
    if found is None:
        raise UserError(f"column {name!r} holds lists or records; a filter can only ask whether it is None")
    return found


def operand(name: str, field: FieldType, value: Any) -> Any:
    """A value to compare a column with; a whole number may be compared with a broken one.

    Raises:
        UserError: the value is not what the column holds.
    """
    kind = kind_of(name, field)
    if hasattr(value, "as_py"):
        value = value.as_py()  # an Arrow scalar
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if kind is str and isinstance(value, str):
        return str(value)  # polars would make a type of its own for a member of an enumeration
    if kind is bool and isinstance(value, bool):
        return value
    if kind in (int, float) and is_number:
        return _number(name, kind, value)
    raise _misfit(name, kind, value)


def member(name: str, field: FieldType, value: Any) -> Any:
    """A value that a column may equal, in the column's own type; None stays None.

    Raises:
        UserError: the column cannot hold the value.
    """
    if value is None:
        return None
    found = operand(name, field, value)
    if kind_of(name, field) is int and isinstance(found, float):
        if not found.is_integer() or int(found) not in INTEGERS:
            raise _misfit(name, int, value)
        return int(found)
    return found


def _number(name: str, kind: type, value: Any) -> int | float:
    if kind is int and isinstance(value, numbers.Integral):
        if int(value) not in INTEGERS:
            raise UserError(f"the filter does not fit its column: {name} holds 64-bit integers, {value} is beyond them")
        return int(value)
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"the filter does not fit its column: {name} holds numbers, {value} is too large") from None


def _misfit(name: str, kind: type, value: Any) -> UserError:
    return UserError(f"the filter does not fit its column: {name} holds {WORDS[kind]}, not {value!r}")
