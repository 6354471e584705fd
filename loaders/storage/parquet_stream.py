"""Foreign Parquet, read batch by batch in a process of its own, which may crash."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.loaders.storage.isolation import shared_reader
from kbench.schemas import DataError, UserError

if TYPE_CHECKING:
    import pyarrow as pa

PARSER = "kbench.loaders.storage.parquet_stream:chunks"
READ_ROWS, BATCH_ROWS, BATCH_BYTES = 16, 2048, 8 << 20
"""Rows read at once, and what is handed over at once: so many rows, or fewer that are longer."""
CPU_SECONDS = 3600
"""Limit of one file's fork: files here may be large."""


def open_parquet(path: Path, columns: Sequence[str] | None = None) -> tuple[pa.Schema, Iterator[pa.Table]]:
    """A file's schema, and its rows in tables of a few thousand; columns that the file lacks are skipped."""
    import pyarrow as pa

    if not path.is_file():
        raise UserError(f"path {str(path)!r} does not exist; give the file to read")
    request = json.dumps({"path": str(path.resolve()), "columns": columns}).encode()
    pieces = shared_reader(PARSER).stream(request, str(path))
    schema = pa.ipc.open_stream(next(pieces, b"")).schema
    return schema, (pa.ipc.open_stream(piece).read_all() for piece in pieces)


def read_schema(path: Path) -> pa.Schema:
    """A file's schema."""
    schema, rest = open_parquet(path, columns=[])
    for _ in rest:  # to its end, so that the reader is free for the next file
        pass
    return schema


def warm_up() -> None:
    """Import what parsing needs and keep it to one thread, so that a process that only waits can be forked."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    # What pyarrow imports on first use would otherwise be imported by every fork.
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1]}), sink)
    assert pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata.num_rows == 1
    assert _stream(pa.schema([("a", pa.int64())]).empty_table())


def chunks(request: bytes) -> Iterator[bytes]:
    """In the fork: the schema, then each batch, as Arrow IPC streams."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    asked = json.loads(request)
    try:
        # An open file, because a path makes pyarrow import its file systems in every fork.
        opened = pa.OSFile(asked["path"], "rb")
        file = pq.ParquetFile(opened)
        schema = file.schema_arrow
        if len(set(schema.names)) < len(schema.names):
            raise DataError("names a column twice; rename one")
        yield _stream(schema.empty_table())
        if asked["columns"] == []:
            return
        names = [name for name in schema.names if asked["columns"] is None or name in asked["columns"]]
        rows = 0
        for table in _gathered(file.iter_batches(READ_ROWS, columns=names, use_threads=False)):
            rows += table.num_rows
            yield _stream(table)
        if rows != file.metadata.num_rows:
            raise DataError(f"holds {rows} rows where its footer says {file.metadata.num_rows}; fetch it again")
    except (pa.ArrowException, OSError, ValueError, OverflowError, TypeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
        first = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DataError(f"cannot be read as Parquet ({first}); fetch it again") from None


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        batch.validate(full=True)
        waiting.append(batch)
        if len(waiting) * READ_ROWS >= BATCH_ROWS or sum(one.nbytes for one in waiting) >= BATCH_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def _stream(table: pa.Table) -> bytes:
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())
