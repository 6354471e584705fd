"""How a record type is declared once, and what derives from the declaration.

A record is a frozen, slotted dataclass. The string literal under a field is that field's description.
From the declaration derive its JSON Schema and its Arrow schema here, and reading and writing in convert.py.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """A bound on a field's values, carried in `Annotated`."""

    minimum: float | None = None
    exclusive_minimum: float | None = None
    maximum: float | None = None
    pattern: str | None = None

    def json(self) -> dict[str, Any]:
        """The bound in JSON Schema's words."""
        names = {"minimum": "minimum", "exclusive_minimum": "exclusiveMinimum", "maximum": "maximum"}
        bounds = {word: getattr(self, name) for name, word in names.items() if getattr(self, name) is not None}
        return bounds | ({"pattern": self.pattern} if self.pattern else {})


Positive = Annotated[float, Limit(exclusive_minimum=0)]
NonNegative = Annotated[float, Limit(minimum=0)]
Count = Annotated[int, Limit(minimum=0)]
Probability = Annotated[float, Limit(minimum=0, maximum=1)]
ID_PATTERN = "^[0-9a-f]{16,64}$"
Sha = Annotated[str, Limit(pattern=ID_PATTERN)]
Name = Annotated[str, Limit(pattern="^[a-z][a-z0-9_]*$")]


class Record:
    """Base of every record type."""

    __slots__ = ()
    TYPE: ClassVar[str]
    """The record type's name in files and errors."""
    VERSION: ClassVar[str]
    """The schema version this declaration is."""


T = TypeVar("T")


def _once_per_type(derive: Callable[[type[Record]], T]) -> Callable[[type[Record]], T]:
    derived_of: dict[type[Record], T] = {}

    def derived(record: type[Record]) -> T:
        if record not in derived_of:
            derived_of[record] = derive(record)
        return derived_of[record]

    derived.__doc__ = derive.__doc__
    return derived


@dataclasses.dataclass(frozen=True, slots=True)
class FieldType:
    """A field's type, taken apart once."""

    base: Any
    optional: bool
    limit: Limit | None
    item: FieldType | None = None
    """The element type when `base` is tuple."""


def _take_apart(hint: Any) -> FieldType:
    limit: Limit | None = None
    optional = False
    while True:
        origin = typing.get_origin(hint)
        if origin is Annotated:
            limit = next((m for m in hint.__metadata__ if isinstance(m, Limit)), limit)
            hint = hint.__origin__
        elif origin in (types.UnionType, typing.Union):
            members = [m for m in typing.get_args(hint) if m is not type(None)]
            if len(members) != 1:
                raise TypeError(f"a record field may be T or T | None, not {hint!r}")
            optional, hint = True, members[0]
        elif origin is tuple:
            return FieldType(tuple, optional, limit, _take_apart(typing.get_args(hint)[0]))
        else:
            return FieldType(hint, optional, limit)


@_once_per_type
def field_types(record: type[Record]) -> Mapping[str, FieldType]:
    """The record's fields in order, each with its type taken apart."""
    hints = typing.get_type_hints(record, include_extras=True)
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    return types.MappingProxyType({f.name: _take_apart(hints[f.name]) for f in fields})


@_once_per_type
def optional_fields(record: type[Record]) -> frozenset[str]:
    """The fields a mapping may leave out, because their declaration gives a default."""
    fields = dataclasses.fields(record)  # type: ignore[arg-type]
    return frozenset(f.name for f in fields if f.default is not dataclasses.MISSING)


@_once_per_type
def field_docs(record: type[Record]) -> Mapping[str, str]:
    """The string literal under each field."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(record)))
    body = typing.cast(ast.ClassDef, tree.body[0]).body
    docs: dict[str, str] = {}
    for statement, following in itertools.pairwise(body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            docs[statement.target.id] = " ".join(following.value.value.split())
    return types.MappingProxyType(docs)


def _json_type(field: FieldType) -> dict[str, Any]:
    scalars: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
    if field.base is tuple:
        assert field.item is not None
        schema: dict[str, Any] = {"type": "array", "items": _json_type(field.item)}
    elif isinstance(field.base, type) and issubclass(field.base, enum.StrEnum):
        schema = {"type": "string", "enum": [member.value for member in field.base]}
    elif isinstance(field.base, type) and issubclass(field.base, Record):
        schema = _object_schema(field.base)
    else:
        schema = {"type": scalars[field.base]}
    if field.limit:
        schema |= field.limit.json()
    if field.optional:
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema:
            schema["enum"] = [*schema["enum"], None]
    return schema


def _object_schema(record: type[Record]) -> dict[str, Any]:
    docs = field_docs(record)
    defaults = optional_fields(record)
    properties = {name: {"description": docs.get(name, "")} | _json_type(t) for name, t in field_types(record).items()}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in defaults],
        "additionalProperties": False,
    }


def json_schema(record: type[Record]) -> dict[str, Any]:
    """The record type's JSON Schema."""
    head = {
        "$schema": SCHEMA_DIALECT,
        "$id": f"kbench/{record.VERSION}/{record.TYPE}.json",
        "title": record.TYPE,
        "description": (record.__doc__ or "").strip().splitlines()[0],
    }
    return head | _object_schema(record)


def _arrow_type(field: FieldType) -> pa.DataType:
    import pyarrow as pa

    if field.base is tuple:
        assert field.item is not None
        return pa.list_(_arrow_type(field.item))
    if isinstance(field.base, type) and issubclass(field.base, Record):
        return pa.struct(list(arrow_schema(field.base)))
    if isinstance(field.base, type) and issubclass(field.base, enum.StrEnum):
        return pa.string()
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}[field.base]


@_once_per_type
def arrow_schema(record: type[Record]) -> pa.Schema:
    """The record type's Arrow schema; every column nullable as `datasets` writes them."""
    import pyarrow as pa

    return pa.schema([pa.field(name, _arrow_type(t)) for name, t in field_types(record).items()])
