"""Records of which a test states what matters to it."""

from typing import TypeVar

from kbench.schemas import Record
from kbench.schemas.record import field_types

PLAIN = {str: "x", int: 1, float: 1.0, bool: False, tuple: ()}
R = TypeVar("R", bound=Record)


def filled(record: type[R], *, like: Record | None = None, **values: object) -> R:
    """A record with these values, and those of a kernel it is about; further fields are null, or plain values."""
    stated = {name: getattr(like, name) for name in field_types(record) if like is not None and hasattr(like, name)}
    missing = {
        name: None if field.optional else PLAIN[field.base]
        for name, field in field_types(record).items()
        if name not in values and name not in stated
    }
    return record(**missing, **(stated | values))
