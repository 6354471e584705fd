"""Parquet files given one by one, and the mark in a file that says which config it belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kbench.loaders.corpus.configs import CONFIGS, WHOLE, Config
from kbench.loaders.corpus.manifest import FileEntry, file_sha256
from kbench.schemas import DataError, UserError
from kbench.schemas.record import field_types

if TYPE_CHECKING:
    import pyarrow as pa


MARK = b"kbench.config"
"""Key of the schema's metadata under which a file names its config."""


def marked(schema: pa.Schema, config: Config) -> pa.Schema:
    """The schema with its config's name: two configs may have the same columns."""
    return schema.with_metadata({MARK: config.name.encode()})


def describe_shards(paths: Iterable[Path]) -> dict[str, list[tuple[Path, FileEntry]]]:
    """Files by config, described as a manifest would.

    Raises:
        UserError: a file does not exist.
        DataError: a file is not Parquet, is cut short, or has the columns of no config.
    """
    files: dict[str, list[tuple[Path, FileEntry]]] = {}
    for path in paths:
        name, entry = _describe(path)
        files.setdefault(name, []).append((path, entry))
    return files


def _describe(path: Path) -> tuple[str, FileEntry]:
    from kbench.loaders.corpus.fingerprint import rows_hash

    if not path.is_file():
        raise UserError(f"path {str(path)!r} does not exist; give a corpus folder, Parquet files or a Hub id")
    table = read_parquet(path)
    chosen = _config_of(path, table.schema)
    splits = set(table.column("split").to_pylist()) if chosen.is_split else {WHOLE}
    entry = FileEntry(
        path=str(path),
        split=str(splits.pop()) if len(splits) == 1 else WHOLE,
        rows=table.num_rows,
        bytes=path.stat().st_size,
        sha256=file_sha256(path),
        rows_hash=f"{rows_hash(table, chosen.later):064x}",
        schema_version=chosen.record.VERSION,
        values={},
    )
    return chosen.name, entry


def read_parquet(path: Path) -> pa.Table:
    """A whole file.

    Raises:
        DataError: it is not Parquet or is cut short.
    """
    import pyarrow as pa

    return pa.concat_tables(row_groups(path))


def row_groups(path: Path) -> Iterator[pa.Table]:
    """The row groups of a file, one at a time; an empty table where there is none.

    Raises:
        DataError: it is not Parquet or is cut short.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.is_fifo():  # opening it would never end
        raise DataError(f"{path} is a pipe, not Parquet; fetch it again")
    try:
        with pq.ParquetFile(path) as file:
            if not file.num_row_groups:
                yield file.read()
            for number in range(file.num_row_groups):
                yield file.read_row_group(number)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {first_line(error)}; fetch it again") from error


def first_line(error: BaseException) -> str:
    """The first line of an error's message, without its final full stop."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def _config_of(path: Path, schema: pa.Schema) -> Config:
    """The config a file names, else the one its folder is named for, else the first that has its columns."""
    named = (schema.metadata or {}).get(MARK, b"").decode("utf-8", "replace")
    fitting = [
        config
        for config in CONFIGS.values()
        if set(config.key) <= set(schema.names) and set(schema.names) <= set(field_types(config.record))
    ]
    for name in (named, path.absolute().parent.name):
        for config in fitting:
            if config.name == name:
                return config
    if fitting:
        return fitting[0]
    raise DataError(f"{path} has the columns of no config: {', '.join(schema.names[:6])}; it is not a kbench shard")
