"""Checks of one table, column by column: presence, types, bounds, patterns, enumerations, and what a status carries."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kbench.loaders.corpus.configs import Config
from kbench.schemas import DataError, Record, Status, arrow_schema, from_dict
from kbench.schemas.record import FieldType, Limit, field_types
from kbench.schemas.status import TIMED_FIELDS

REPORTED_ROWS = 100
"""Rows reported per broken rule of a file; the rest are counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Issue:
    """One thing wrong with a corpus: where, what, and what it must be."""

    file: str
    row: int | None
    """Position in the file, from 0; None when it is about the whole file."""
    field: str | None
    value: Any
    message: str

    def __str__(self) -> str:
        place = self.file + (f", row {self.row}" if self.row is not None else "")
        what = f": {self.field} is {self.value!r}" if self.field is not None else ""
        return f"{place}{what}: {self.message}"


def rows_where(mask: Any, file: str, field: str, column: Any, message: str) -> Iterator[Issue]:
    """One issue for each row where the mask is true, up to a number."""
    rows = pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist()
    for row in rows[:REPORTED_ROWS]:
        value = column[row].as_py()
        shown = value if not isinstance(value, float) or math.isfinite(value) else str(value)
        yield Issue(file, row, field, shown, message)
    if len(rows) > REPORTED_ROWS:
        yield Issue(file, None, field, None, f"{message} ({len(rows) - REPORTED_ROWS} more rows)")


def schema_issues(config: Config, schema: pa.Schema, file: str) -> Iterator[Issue]:
    """Columns that are missing, unknown or of the wrong type."""
    wanted = arrow_schema(config.record)
    fields = field_types(config.record)
    for name in wanted.names:
        if name not in schema.names and not fields[name].optional:
            yield Issue(file, None, name, None, "the column is missing")
    for name in schema.names:
        if name not in wanted.names:
            yield Issue(file, None, name, None, f"unknown column; known: {', '.join(wanted.names)}")
        elif schema.field(name).type != wanted.field(name).type:
            yield Issue(file, None, name, str(schema.field(name).type), f"the type must be {wanted.field(name).type}")


def column_issues(config: Config, table: pa.Table, file: str) -> Iterator[Issue]:
    """Values that their field does not allow."""
    for name, field in field_types(config.record).items():
        if name not in table.column_names:
            continue
        column = table.column(name)
        if not field.optional and column.null_count:
            yield from rows_where(pc.is_null(column), file, name, column, "must be set")
        if column.null_count == len(column):
            # Rows from elsewhere leave most columns null; what holds no value breaks no rule on values.
            continue
        item = field.item or field
        if issubclass(item.base, Record):
            yield from _nested_issues(name, item.base, column, file)
        elif field.item is None:
            for mask, message in _broken(field, column):
                yield from rows_where(mask, file, name, column, message)
        else:
            values, parents = pc.list_flatten(column), pc.list_parent_indices(column)
            missing = [] if item.optional else [(pc.is_null(values), "items must be set")]
            for mask, message in (*missing, *_broken(item, values)):
                yield from _lists_where(mask, parents, file, name, column, message)


def _broken(field: FieldType, column: Any) -> Iterator[tuple[Any, str]]:
    """(mask, message) for each rule of a scalar field."""
    if issubclass(field.base, enum.StrEnum):
        allowed = [member.value for member in field.base]
        is_allowed = pc.is_in(column, value_set=pa.array(allowed))
        yield pc.and_(pc.is_valid(column), pc.invert(is_allowed)), f"must be one of {', '.join(allowed)}"
    if field.base is float:
        yield pc.invert(pc.is_finite(column)), "must be finite; use null for 'not measured'"
    limit = field.limit or Limit()
    if limit.minimum is not None:
        yield pc.less(column, limit.minimum), f"must be at least {limit.minimum:g}"
    if limit.exclusive_minimum is not None:
        yield pc.less_equal(column, limit.exclusive_minimum), f"must be more than {limit.exclusive_minimum:g}"
    if limit.maximum is not None:
        yield pc.greater(column, limit.maximum), f"must be at most {limit.maximum:g}"
    if limit.pattern is not None:
        yield pc.invert(pc.match_substring_regex(column, limit.pattern)), f"must match {limit.pattern}"


def _lists_where(mask: Any, parents: Any, file: str, name: str, column: Any, message: str) -> Iterator[Issue]:
    """One issue for each list with an item where the mask is true."""
    rows = pc.unique(parents.filter(pc.fill_null(mask, False)))
    if len(rows):
        hit = pc.is_in(pa.array(range(len(column)), rows.type), value_set=rows)
        yield from rows_where(hit, file, name, column, message)


def _nested_issues(name: str, record: type[Record], column: Any, file: str) -> Iterator[Issue]:
    # Only the problems config nests records, and it is small: reading each is affordable.
    for row, value in enumerate(column.to_pylist()):
        for nested in value if isinstance(value, list) else [value]:
            try:
                from_dict(record, nested, where=name)
            except DataError as error:
                yield Issue(file, row, name, None, str(error))


def status_issues(table: pa.Table, file: str) -> Iterator[Issue]:
    """Fields that contradict the row's status; a row without env_id was measured elsewhere and may lack figures."""
    if "status" not in table.column_names:
        return
    status = table.column("status")
    is_ok = pc.fill_null(pc.equal(status, Status.OK.value), False)
    ours = pc.is_valid(table.column("env_id")) if "env_id" in table.column_names else is_ok
    machine = pc.equal(status, Status.INFRASTRUCTURE_ERROR.value)
    yield from rows_where(machine, file, "status", status, "infrastructure_error is retried, never stored")
    for name in (name for name in TIMED_FIELDS if name in table.column_names):
        column = table.column(name)
        unset = pc.and_(pc.and_(is_ok, ours), pc.is_null(column))
        yield from rows_where(unset, file, name, column, "must be set when status is ok")
        extra = pc.and_(pc.invert(is_ok), pc.is_valid(column))
        yield from rows_where(extra, file, name, column, "must be null unless status is ok")
    if "error" in table.column_names:
        error = table.column("error")
        failed = pc.and_(pc.is_valid(status), pc.invert(is_ok))
        silent = pc.and_(failed, pc.fill_null(pc.equal(error, ""), True))
        yield from rows_where(silent, file, "error", error, "must say what happened when the kernel failed")
        stray = pc.and_(pc.invert(failed), pc.is_valid(error))
        yield from rows_where(stray, file, "error", error, "must be null unless the kernel failed")


def interval_issues(table: pa.Table, file: str) -> Iterator[Issue]:
    """Figures outside their own interval."""
    for name, low, high in (
        ("runtime_us", "runtime_low_us", "runtime_high_us"),
        ("speedup", "speedup_low", "speedup_high"),
    ):
        if not {name, low, high} <= set(table.column_names):
            continue
        value = table.column(name)
        outside = pc.or_(pc.less(value, table.column(low)), pc.greater(value, table.column(high)))
        yield from rows_where(outside, file, name, value, f"must lie between {low} and {high}")


def sample_issues(table: pa.Table, file: str) -> Iterator[Issue]:
    """Correct measurements of ours without raw times, or with impossible ones."""
    if "samples_us" not in table.column_names:
        return
    samples = table.column("samples_us")
    is_ok = pc.equal(table.column("status"), Status.OK.value)
    timed = pc.fill_null(pc.and_(is_ok, pc.is_valid(table.column("env_id"))), False)
    empty = pc.fill_null(pc.equal(pc.list_value_length(samples), 0), True)
    yield from rows_where(pc.and_(timed, empty), file, "samples_us", samples, "must hold the times of a timed kernel")
    parents = pc.list_parent_indices(samples)
    impossible = pc.and_(pc.less_equal(pc.list_flatten(samples), 0.0), timed.take(parents))
    yield from _lists_where(impossible, parents, file, "samples_us", samples, "must be more than 0")
