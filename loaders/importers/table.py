"""Any table of measured kernels (CSV, JSON lines, a JSON list or Parquet), its columns mapped by the caller.

A mapping gives each field of ours the column it is read from: `runtime_us=time*1000`. A value may be scaled by a
number, a text in single quotes stands for itself, and the columns of a problem's name are joined by `+`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from kbench.loaders.importers import fields
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.inputs import LARGEST_KERNEL_BYTES, digest, head, open_unpacked, parquet_rows
from kbench.loaders.importers.json_stream import LARGEST_VALUE, JsonStream, json_lines
from kbench.loaders.importers.reader import Entry, Reader
from kbench.loaders.importers.rows import NOT_STATED, Row, Source, failure, named, problem, written
from kbench.loaders.importers.stated_inputs import with_stated_inputs
from kbench.schemas import Backend, DataError, Status, UnknownNameError, UserError

FIELDS = ("source", "problem", "family", "backend", "gpu", "runtime_us", "speedup", "status", "error", "compiled",
          "correct", "run", "sample", "proposer", "license", "reference")  # fmt: skip
SCALED = re.compile(r"(?P<column>.+?)\s*(?P<sign>[*/])\s*(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
CONSTANT = re.compile(r"'([^']*)'")
TRUE, FALSE = ("true", "1", "yes", "1.0"), ("false", "0", "no", "0.0")
EMPTY = ("", "nan", "none", "null", "n/a")


def parse_mapping(text: str) -> dict[str, str]:
    """The mapping of `--map`: field=column, separated by commas."""
    columns: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, equals, column = (word.strip() for word in part.partition("="))
        if not equals or not column:
            raise UserError(f"--map holds {part!r}; write field=column, such as runtime_us=time*1000")
        if field not in FIELDS:
            raise UnknownNameError("field of --map", field, FIELDS)
        if field in columns:
            raise UserError(f"--map names {field!r} twice; map each field once")
        columns[field] = column
    if "problem" not in columns or not {"source", "run", "sample"} & set(columns):
        raise UserError("--map must name problem, and source or what tells kernels apart without one (run, sample)")
    return columns


class Table(Reader):
    """One kernel per row, its fields read from the columns that the caller names."""

    NAME, FAMILY = "table", "imported"
    _columns = 0
    """Of a CSV file: how many values each row must have."""

    def records(self) -> Iterator[tuple[int, Any]]:
        if not self.context.settings.columns:
            raise UserError(
                "a table needs --map, which says what its columns are, such as --map source=code,problem=task"
            )
        start = head(self.path, 4096).lstrip()
        if start[:4] == b"PAR1":
            yield from parquet_rows(self.path, advance=self.context.advance)
        elif start[:1] == b"[":
            stream = JsonStream(self.path, self.context.advance)
            for number in stream.elements():
                yield number, stream.value()
            stream.end()
        elif start[:1] == b"{":
            yield from json_lines(self.path, self.context.advance)
        else:
            yield from self._csv_rows()

    def _csv_rows(self) -> Iterator[tuple[int, Any]]:
        csv.field_size_limit(2 * LARGEST_KERNEL_BYTES)
        with open_unpacked(self.path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(_bounded_lines(file, self.path), strict=True)
            try:
                header = reader.fieldnames or ()
                if len(set(header)) < len(header):
                    raise DataError(f"{self.path} names a column twice: {fields.shown(header)}; rename one")
                self._columns = len(header)
                for record in reader:
                    yield reader.line_num, record
            except csv.Error as error:
                raise DataError(f"{self.path}, line {reader.line_num}: is not CSV ({error})") from None
            except UnicodeDecodeError as error:
                raise DataError(f"{self.path} is not text in UTF-8 ({error.reason})") from None

    def entry(self, place: object, record: Any) -> Entry:
        fields.an_object(record, "row")
        try:
            return self._entry(place, record)
        except RowError as error:
            # A person looks for the column that a field of ours was read from.
            expression = self.context.settings.columns.get(error.field, error.field)
            scaled = SCALED.fullmatch(expression)
            column = scaled["column"] if scaled and expression not in record else expression
            if column == error.field or column not in record:
                raise
            message = f"{error.message} (--map {error.field}={expression})"
            raise RowError(column, record[column], message) from None

    def _entry(self, place: object, record: Mapping[str, Any]) -> Entry:
        # A comma outside quotes moves every later value to another column, and a CSV line cut short has too few.
        if None in record or (self._columns and None in record.values()):
            raise RowError("row", list(record.values()), f"must have {self._columns} values, as the header has")
        values = {field: _value(record, column) for field, column in self.context.settings.columns.items()}
        name = _words(values, "problem")
        if name == NOT_STATED:
            raise RowError("problem", values["problem"], "must be there, in every row")
        backend, source, more = self._source(place, values)
        if _words(values, "backend") != NOT_STATED:
            backend = Backend(fields.one_of(str(values["backend"]).lower(), "backend", Backend))
        family = fields.slug(str(values.get("family") or self.FAMILY), "family")
        gpu = self.gpu(fields.name_text(values, "gpu"), "the row names none")
        kernel = self.kernel(
            fields.slug(f"{family}_{name}", "problem"), (backend, source, more), gpu=gpu,
            family=family, license=fields.name_text(values, "license"), run_id=_words(values, "run"),
            proposer=_words(values, "proposer"),
            **self._figures(values),
        )  # fmt: skip
        reference = fields.source_text(values, "reference") if values.get("reference") else ""
        return Entry(
            kernel, lambda: self._problem(kernel["problem_id"], family, str(values["problem"]), reference),
            [self.measured(kernel, place)],
        )  # fmt: skip

    def _problem(self, problem_id: str, family: str, title: str, reference: str) -> Row:
        """A problem's row, with the shapes that get_inputs of its reference makes."""
        row = with_stated_inputs(problem(problem_id, family, title, reference), reference)
        if not row["workloads"]:
            unclear = "get_inputs of the reference is missing, or its shapes are not plain to see"
            unstated = "the table states no shapes; map a reference that has get_inputs"
            self.context.null("workloads", unclear if reference else unstated)
        return row

    def _source(self, place: object, values: Mapping[str, Any]) -> Source:
        if values.get("source"):
            return written(fields.source_text(values, "source"))
        self.context.null("source", "the row holds no kernel text; the source names the row")
        stated = {field: str(values[field]) for field in ("run", "sample") if values.get(field) is not None}
        return named(file=digest(self.path), row=place, **stated)

    def _figures(self, values: Mapping[str, Any]) -> Row:
        status = _status(values)
        if status is not None and status is not Status.OK:
            return failure(status, None if values.get("error") is None else str(values["error"]))
        runtime, speedup = (_number(values.get(name), name) for name in ("runtime_us", "speedup"))
        if status is None and runtime is None and speedup is None:
            self.context.null("status", "the row states neither a verdict nor a figure")
            return {}
        if runtime is not None:
            runtime = fields.microseconds(runtime, "us", "runtime_us")
        if speedup is not None:
            speedup = fields.positive({"speedup": speedup}, "speedup")
        return {"status": Status.OK.value, "runtime_us": runtime, "speedup": speedup}


def _bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Lines of a file; one that takes all of it, and so gigabytes as text, is refused."""
    for line in iter(lambda: file.readline(LARGEST_VALUE + 1), ""):
        if len(line) > LARGEST_VALUE:
            raise DataError(f"{path} holds a line of more than {LARGEST_VALUE:,} characters; it is not CSV")
        yield line


def _value(record: Mapping[str, Any], expression: str) -> Any:
    """A field's value in a row."""
    if expression in record:
        return record[expression]
    constant, scaled = CONSTANT.fullmatch(expression), SCALED.fullmatch(expression)
    if constant:
        return constant.group(1)
    if scaled and scaled["column"] in record:
        number = _number(record[scaled["column"]], scaled["column"])
        factor = float(scaled["number"])
        if number is None or not factor:
            return None
        return number * factor if scaled["sign"] == "*" else number / factor
    parts = [part.strip() for part in expression.split("+")]
    missing = [part for part in parts if part not in record]
    if missing:
        here = ", ".join(fields.shown(name) for name in list(record)[:8])
        raise RowError(missing[0], None, f"the row has no such column; it has {here}")
    words = [str(record[part]).strip() for part in parts if record[part] is not None]
    if len(words) < len(parts) or not all(words):
        raise RowError(expression, [record[part] for part in parts], "must hold something in each of its columns")
    # 1_1 + 2 is not 1 + 1_2.
    return ("_" if all(word.isalnum() for word in words[:-1]) else "+").join(words)


def _number(value: Any, field: str) -> float | None:
    if value is None or (isinstance(value, str) and value.strip().lower() in EMPTY) or value != value:
        return None
    # Python reads 1_000, which nobody else does.
    if isinstance(value, bool) or "_" in str(value):
        raise RowError(field, value, "must be a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise RowError(field, value, "must be a number") from None


def _words(values: Mapping[str, Any], field: str) -> str:
    value = values.get(field)
    return NOT_STATED if value is None or value != value else fields.plain(str(value)).strip() or NOT_STATED


def _status(values: Mapping[str, Any]) -> Status | None:
    stated = values.get("status")
    if stated is not None and str(stated).strip().lower() not in EMPTY:
        return Status(fields.one_of(str(stated).strip().lower(), "status", Status))
    if _truth(values, "compiled") is False:
        return Status.COMPILE_ERROR
    correct = _truth(values, "correct")
    return None if correct is None else Status.OK if correct else Status.INCORRECT


def _truth(values: Mapping[str, Any], field: str) -> bool | None:
    value = values.get(field)
    word = str(value).strip().lower()
    if value is None or word in EMPTY:
        return None
    if word in TRUE or word in FALSE:
        return word in TRUE
    raise RowError(field, value, "must be true or false")
