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

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import (
    RowError,
    an_object,
    microseconds,
    name_text,
    plain,
    positive,
    shown,
    slug,
    source_text,
)
from kbench.loaders.importers.inputs import LARGEST_KERNEL_BYTES, digest, head, open_unpacked, records
from kbench.loaders.importers.json_stream import LARGEST_VALUE, JsonStream, json_lines
from kbench.loaders.importers.rows import (
    NOT_STATED,
    Items,
    Row,
    Source,
    failure,
    kernel_row,
    measurement_row,
    named,
    problem,
    written,
)
from kbench.loaders.storage.parquet_stream import open_parquet
from kbench.schemas import Backend, DataError, Status, UnknownNameError, UserError

FIELDS = ("source", "problem", "family", "backend", "gpu", "runtime_us", "speedup", "status", "error", "compiled",
          "correct", "run", "sample", "proposer", "license", "reference")  # fmt: skip
SCALED = re.compile(r"(?P<column>.+?)\s*(?P<sign>[*/])\s*(?P<number>\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
CONSTANT = re.compile(r"'([^']*)'")
TRUE, FALSE = ("true", "1", "yes", "1.0"), ("false", "0", "no", "0.0")
EMPTY = ("", "nan", "none", "null", "n/a")
REMEMBERED_PROBLEMS = 1 << 16
"""Problems that are not described again; where there are more, the sink leaves out what it has."""


def parse_mapping(text: str) -> dict[str, str]:
    """The mapping of `--map`: field=column, separated by commas.

    Raises:
        UserError: a part is no mapping, or a field is unknown or mapped twice.
    """
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        field, equals, column = (word.strip() for word in part.partition("="))
        if not equals or not column:
            raise UserError(f"--map holds {part!r}; write field=column, such as runtime_us=time*1000")
        if field not in FIELDS:
            raise UnknownNameError("field of --map", field, FIELDS)
        if field in found:
            raise UserError(f"--map names {field!r} twice; map each field once")
        found[field] = column
    if "problem" not in found or not {"source", "run", "sample"} & set(found):
        raise UserError("--map must name problem, and source or what tells kernels apart without one (run, sample)")
    return found


def rows(path: Path, context: Context) -> Items:
    """Kernels, and measurements where the GPU is known."""
    columns = context.settings.columns
    if not columns:
        raise UserError("a table needs --map, which says what its columns are, such as --map source=code,problem=task")
    described: set[str] = set()
    file = digest(path)
    for number, record in _records(path, context):
        try:
            record = an_object(record, "row")
            values = {field: _value(record, column) for field, column in columns.items()}
            kernel = _row(path, context, number, values)
            reference = source_text(values, "reference") if values.get("reference") else ""
        except RowError as error:
            context.bad(path, number, error)
            continue
        if kernel["problem_id"] not in described:
            if len(described) == REMEMBERED_PROBLEMS:
                described.clear()
            described.add(kernel["problem_id"])
            yield "problems", problem(kernel["problem_id"], kernel["family"], str(values["problem"]), reference), number
        yield "kernels", kernel, number
        if kernel["gpu"] is not None and kernel["status"] is not None:
            figures = {name: kernel[name] for name in ("runtime_us", "speedup")}
            yield "measurements", measurement_row(kernel, "published", f"{file}/{number}", **figures), number


def _records(path: Path, context: Context) -> Iterator[tuple[int, Any]]:
    start = head(path, 4096).lstrip()
    if start[:4] == b"PAR1":
        first = 0
        for table in open_parquet(path)[1]:
            yield from enumerate(records(table, path), start=first)
            first += table.num_rows
            context.advance(table.nbytes)
    elif start[:1] == b"[":
        with JsonStream(path, context.advance) as stream:
            for number in stream.elements():
                yield number, stream.value()
            stream.end()
    elif start[:1] == b"{":
        yield from json_lines(path, context.advance)
    else:
        yield from _csv(path, context)


def _csv(path: Path, context: Context) -> Iterator[tuple[int, Any]]:
    csv.field_size_limit(2 * LARGEST_KERNEL_BYTES)
    with io.TextIOWrapper(open_unpacked(path), encoding="utf-8", newline="") as file:
        reader = csv.DictReader(_bounded_lines(file, path), strict=True)
        try:
            header = reader.fieldnames or ()
            if len(set(header)) < len(header):
                raise DataError(f"{path} names a column twice: {shown(header)}; rename one")
            for record in reader:
                # A comma outside quotes moves every later value to another column, and a line cut short has too few.
                if None in record or None in record.values():
                    error = RowError("row", list(record.values()), f"must have {len(header)} values, as the header has")
                    context.bad(path, reader.line_num, error)
                else:
                    yield reader.line_num, record
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.line_num}: is not CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not text in UTF-8 ({error.reason})") from None


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
        known = ", ".join(shown(name) for name in list(record)[:8])
        raise RowError(missing[0], None, f"the row has no such column; it has {known}")
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


def _row(path: Path, context: Context, number: int, values: dict[str, Any]) -> Row:
    name = _words(values, "problem")
    if name == NOT_STATED:
        raise RowError("problem", values["problem"], "must be there, in every row")
    backend, source, more = _source(path, context, number, values)
    family = slug(str(values.get("family") or "imported"), "family")
    gpu = context.gpu(path, name_text(values, "gpu"), "the row names none")
    return kernel_row(
        slug(f"{family}_{name}", "problem"), family, _backend(values) or backend, source, gpu=gpu,
        origin=f"table {plain(path.name)}", license=context.license(name_text(values, "license")),
        split=context.settings.split, run_id=_words(values, "run"), proposer=_words(values, "proposer"),
        **more, **_figures(context, values),
    )  # fmt: skip


def _words(values: Mapping[str, Any], field: str) -> str:
    value = values.get(field)
    return NOT_STATED if value is None or value != value else plain(str(value)).strip() or NOT_STATED


def _backend(values: Mapping[str, Any]) -> Backend | None:
    if _words(values, "backend") == NOT_STATED:
        return None
    try:
        return Backend(str(values["backend"]).lower())
    except ValueError:
        raise RowError("backend", values["backend"], f"must be one of {', '.join(Backend)}") from None


def _source(path: Path, context: Context, number: int, values: Mapping[str, Any]) -> Source:
    if values.get("source"):
        return written(source_text(values, "source"))
    context.null("source", "the row holds no kernel text; the source names the row")
    told = {field: str(values[field]) for field in ("run", "sample") if values.get(field) is not None}
    return named(file=digest(path), row=number, **told)


def _figures(context: Context, values: Mapping[str, Any]) -> Row:
    status = _status(values)
    if status is not None and status is not Status.OK:
        return failure(status, None if values.get("error") is None else str(values["error"]))
    runtime, speedup = (_number(values.get(name), name) for name in ("runtime_us", "speedup"))
    if status is None and runtime is None and speedup is None:
        context.null("status", "the row states neither a verdict nor a figure")
        return {}
    if runtime is not None:
        runtime = microseconds(runtime, "us", "runtime_us")
    if speedup is not None:
        speedup = positive({"speedup": speedup}, "speedup")
    return {"status": Status.OK.value, "runtime_us": runtime, "speedup": speedup}


def _status(values: Mapping[str, Any]) -> Status | None:
    stated = values.get("status")
    if stated is not None and str(stated).strip().lower() not in EMPTY:
        try:
            return Status(str(stated).strip().lower())
        except ValueError:
            raise RowError("status", stated, f"must be one of {', '.join(Status)}") from None
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
