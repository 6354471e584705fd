"""Parse untrusted bytes with bounds on size, depth and rows, and name what is wrong with them."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbench.benchmark.surrogates.forecasts import conform
from kbench.schemas import DataError, Forecast, arrow_schema
from kbench.schemas.record import field_types

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 1_000_000
MAX_VALUES = 9 * MAX_ROWS
"""Values of one column, list elements included."""
MAX_UNPACKED_BYTES = 160 << 20
SHOWN_CHARACTERS = 80
MAX_LINE_BYTES = 64 * 1024
"""A forecast is a few hundred bytes; the rest leaves space for the reason of a failure."""
WHOLE_NUMBERS = frozenset(name for name, kind in field_types(Forecast).items() if kind.base is int)
LINES_AT_ONCE = 10_000
"""Lines held as Python objects at a time, which take ten times the memory of Arrow columns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Flaw:
    """One problem of a submission."""

    file: str
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.field} is {self.value}; {self.message}"


def shown(value: object) -> str:
    """A value for an error message: short, and with every character visible."""
    text = ascii(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def parse_json(data: bytes, name: str) -> Any:
    """JSON without NaN, infinities or duplicate keys.

    Raises:
        DataError: the bytes are not such JSON.
    """

    def refuse(word: str) -> Any:
        raise DataError(f"{name} holds {word}; JSON numbers are finite")

    def number(text: str) -> float:
        value = float(text)
        return value if abs(value) != float("inf") else refuse(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        unique_pairs = dict(pairs)
        if len(unique_pairs) < len(pairs):
            raise DataError(f"{name} holds a key twice: {shown([key for key, _ in pairs])}")
        return unique_pairs

    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse, parse_float=number, object_pairs_hook=unique)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise DataError(f"{name} is not JSON in UTF-8 ({reason})") from None
    except DataError:
        raise
    except ValueError as error:
        # Python refuses integers of many thousand digits.
        raise DataError(f"{name} holds a number that cannot be read ({error})") from None


def read_forecasts(data: bytes, name: str) -> pa.Table:
    """A forecasts file as a table with the record's columns; call it where a crash may happen.

    Raises:
        DataError: it is not a forecasts file, or is larger than any submission can be.
    """
    try:
        table = parquet_table(data) if name.endswith(".parquet") else lines_table(data)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None
    table.validate(full=True)
    return conform(table, name)


def parquet_table(data: bytes) -> pa.Table:
    """Parquet bytes as a table; call it where a crash may happen.

    Raises:
        DataError: they are not a forecasts table, or claim more than any submission can hold.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(data))
        _check_footer(file)
        names = file.schema_arrow.names
        unknown = sorted(set(names) - set(arrow_schema(Forecast).names))
        if unknown:
            raise DataError(f"unknown column {shown(unknown[0])}; known: {', '.join(arrow_schema(Forecast).names)}")
        # A cast would make numbers of true, and of text.
        for field in arrow_schema(Forecast):
            for given in (
                file.schema_arrow.field(at).type for at in file.schema_arrow.get_all_field_indices(field.name)
            ):
                if not _same_kind(given, field.type):
                    raise DataError(f"column {field.name!r} holds {str(given)[:SHOWN_CHARACTERS]}; use {field.type}")
        return file.read(use_threads=False)
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        first = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"cannot be read as Parquet ({first})") from None


def _same_kind(given: Any, wanted: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(given):
        return _same_kind(given.value_type, wanted)
    if types.is_null(given):
        return True
    if types.is_list(wanted):
        is_list = types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
        return bool(is_list) and _same_kind(given.value_type, wanted.value_type)
    if types.is_string(wanted):
        return bool(types.is_string(given) or types.is_large_string(given))
    return bool(types.is_integer(given) or (types.is_floating(wanted) and types.is_floating(given)))


def _check_footer(file: Any) -> None:
    """Refuse what the footer claims before anything is unpacked."""
    meta = file.metadata
    if meta.num_rows > MAX_ROWS:
        raise DataError(f"claims {meta.num_rows:,} rows; the limit is {MAX_ROWS:,}")
    unpacked = 0
    for group in range(meta.num_row_groups):
        for column in range(meta.num_columns):
            chunk = meta.row_group(group).column(column)
            if not 0 <= chunk.num_values <= MAX_VALUES:
                raise DataError(f"claims {chunk.num_values:,} values in a column; the limit is {MAX_VALUES:,}")
            unpacked += max(0, chunk.total_uncompressed_size)
    if unpacked > MAX_UNPACKED_BYTES:
        raise DataError(f"unpacks to {unpacked:,} bytes; the limit is {MAX_UNPACKED_BYTES:,}")


def lines_table(data: bytes) -> pa.Table:
    """JSON Lines as a table; call it where running out of memory may happen.

    Raises:
        DataError: they are not forecasts, or more than any submission can hold.
    """
    import pyarrow as pa

    schema = arrow_schema(Forecast)
    try:
        tables = [pa.Table.from_pylist(rows, schema=schema) for rows in _rows(data)]
        return pa.concat_tables([schema.empty_table(), *tables])
    except MemoryError:
        raise DataError("needs more memory than any submission does") from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"has a value of the wrong type ({str(error).splitlines()[0][:200]})") from None


def _rows(data: bytes) -> Iterator[list[dict[str, Any]]]:
    """The lines' objects, some thousands at a time."""
    stream, rows = io.BytesIO(data), []
    for number, line in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 1), b""), start=1):
        if number > MAX_ROWS:
            raise DataError(f"holds more than {MAX_ROWS:,} lines")
        if len(line) > MAX_LINE_BYTES:
            raise DataError(f"line {number} is longer than {MAX_LINE_BYTES:,} bytes; a forecast never is")
        if line.strip():
            rows.append(_row(line, f"line {number}"))
        if len(rows) == LINES_AT_ONCE:
            yield rows
            rows = []
    yield rows


def _row(line: bytes, name: str) -> dict[str, Any]:
    row = parse_json(line, name)
    if not isinstance(row, dict):
        raise DataError(f"{name} is {shown(row)}; each line is one object")
    unknown = sorted(set(row) - set(arrow_schema(Forecast).names))
    if unknown:
        raise DataError(f"{name} has unknown field {shown(unknown[0])}")
    for field, value in row.items():
        # Arrow would take true for 1, and 1.5 too.
        if any(isinstance(one, bool) for one in (value if isinstance(value, list) else [value])):
            raise DataError(f"{name} holds true or false in {field}, which has none")
        if isinstance(value, float) and field in WHOLE_NUMBERS:
            raise DataError(f"{name} holds {value!r} in {field}; use a whole number")
    return row
