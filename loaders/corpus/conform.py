"""Rows in exactly a config's columns and types: records made a table, and tables from elsewhere cast or refused."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from kbench.loaders.corpus.configs import Config, config
from kbench.schemas import DataError, Record, arrow_schema, to_dict


def config_table(name: str, rows: Iterable[Record]) -> pa.Table:
    """Records as a table of their config."""
    return tabulate(config(name), rows)


def tabulate(chosen: Config, rows: Iterable[Record]) -> pa.Table:
    """Records as a table of a config.

    Raises:
        DataError: a record is of another type.
    """
    found = list(rows)
    for row in found:
        if type(row) is not chosen.record:
            raise DataError(f"config {chosen.name!r} takes {chosen.record.TYPE} records, got {type(row).__name__}")
    return pa.Table.from_pylist([to_dict(row) for row in found], schema=arrow_schema(chosen.record))


def conform(chosen: Config, table: pa.Table) -> pa.Table:
    """The table with exactly the config's columns and types.

    Raises:
        DataError: names the column and what it must be.
    """
    schema = arrow_schema(chosen.record)
    unknown = sorted(set(table.column_names) - set(schema.names))
    missing = [name for name in schema.names if name not in table.column_names]
    if unknown:
        raise DataError(f"config {chosen.name!r} has no column {unknown[0]!r}; its columns: {', '.join(schema.names)}")
    if missing:
        raise DataError(f"config {chosen.name!r} needs the column {missing[0]!r}; it may hold nulls")
    table = table.select(schema.names)
    for field in schema:
        if not _same_family(table.schema.field(field.name).type, field.type):
            found = table.schema.field(field.name).type
            raise DataError(f"column {field.name!r} of config {chosen.name!r} is {found}; it must be {field.type}")
    return table.cast(schema)


def _same_family(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps meaning: widths and string layouts may differ, text must not become numbers."""
    if pa.types.is_null(found) or found == wanted:
        return True
    if pa.types.is_dictionary(found):
        return _same_family(found.value_type, wanted)
    tests = (
        (pa.types.is_integer, pa.types.is_integer),
        (lambda kind: pa.types.is_floating(kind) or pa.types.is_integer(kind), pa.types.is_floating),
        (
            lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view(),
            pa.types.is_string,
        ),
        (pa.types.is_nested, pa.types.is_nested),
    )
    return any(left(found) and right(wanted) for left, right in tests)
