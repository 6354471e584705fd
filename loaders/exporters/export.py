"""Export a selection as Parquet, JSON lines, CSV, T4, flashinfer-bench traces or kernel files, batch by batch."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kbench.loaders.corpus.filters.selection import Selection
from kbench.loaders.corpus.shards import marked
from kbench.loaders.exporters import flashinfer_trace, t4
from kbench.loaders.exporters.kernel_files import write_kernel_files
from kbench.loaders.storage.atomic import replacing
from kbench.schemas import UnknownNameError, UserError, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

BY_ENDING = ("parquet", "jsonl", "csv")
FOLDER = "files"
"""The format that is a folder of kernel files."""
FORMATS = (*BY_ENDING, "t4", "flashinfer-trace", FOLDER)


def format_of(path: Path) -> str:
    """The format a file's name asks for."""
    found = path.suffix.lstrip(".").lower()
    if found not in BY_ENDING:
        raise UnknownNameError("export format", found or str(path), FORMATS)
    return found


def export(
    selection: Selection, path: Path, form: str | None = None, advance: Callable[[int], object] = lambda _: None
) -> int:
    """Write a selection to a file, which appears only when it is whole.

    Args:
        selection: the rows.
        path: the file, or the folder of kernel files.
        form: parquet, jsonl, csv, t4, flashinfer-trace or files; by the file's ending when left out.
        advance: told how many rows were written since the last call.

    Returns:
        how many rows were written.

    Raises:
        UserError: the target cannot be written.
    """
    form = form or format_of(path)
    if form == FOLDER:
        return write_kernel_files(selection, path, advance)
    try:
        with replacing(path) as file:
            return write_stream(selection, file, form, advance)
    except OSError as error:
        raise UserError(f"path {str(path)!r} cannot be written: {error.strerror}; choose another target") from error


def write_stream(
    selection: Selection, file: IO[bytes], form: str, advance: Callable[[int], object] = lambda _: None
) -> int:
    """Write a selection to an open file."""
    if form not in FORMATS:
        raise UnknownNameError("export format", form, FORMATS)
    if form == FOLDER:
        raise UserError("--format files writes a folder, not to standard output; name it with --out")
    if form == "parquet":
        return _write_parquet(selection, file, advance)
    lines = {"jsonl": _json_lines, "csv": _csv_lines, "t4": t4.pieces, "flashinfer-trace": flashinfer_trace.pieces}
    rows = 0
    for batch, text in lines[form](selection):
        file.write(text.encode())
        rows += batch
        advance(batch)
    return rows


def _write_parquet(selection: Selection, file: IO[bytes], advance: Callable[[int], object]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema(selection.config.record)
    chosen = marked(pa.schema([schema.field(name) for name in selection.columns or schema.names]), selection.config)
    rows = 0
    with pq.ParquetWriter(file, chosen, compression="zstd") as writer:
        for batch in selection.batches():
            writer.write_batch(batch)
            rows += batch.num_rows
            advance(batch.num_rows)
    return rows


def _json_lines(selection: Selection) -> Iterator[tuple[int, str]]:
    for batch in selection.batches():
        rows = (json.dumps(row, ensure_ascii=False) for row in batch.to_pylist())
        yield batch.num_rows, "".join(f"{row}\n" for row in rows)


def _csv_lines(selection: Selection) -> Iterator[tuple[int, str]]:
    """CSV with a header; a list or a nested record is its JSON, null is empty."""
    names = list(selection.columns or arrow_schema(selection.config.record).names)
    yield 0, _csv_text([names])
    for batch in selection.batches():
        yield batch.num_rows, _csv_text(_cells(batch))


def _cells(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    for row in batch.to_pylist():
        yield [json.dumps(value) if isinstance(value, list | dict) else value for value in row.values()]


def _csv_text(rows: Any) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
