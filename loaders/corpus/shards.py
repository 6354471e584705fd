"""The Parquet files of a corpus: read, described as a manifest would, and verified to be what a manifest says.

A fingerprint names what was scored, so it is computed from the rows, never believed. Files that were verified once are
not read again while size, inode and times stay the same.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbench.loaders.corpus.configs import CONFIGS, WHOLE, Config
from kbench.loaders.corpus.manifest import FileEntry, Manifest
from kbench.loaders.corpus.places import data_home
from kbench.loaders.storage.atomic import file_sha256, write_atomically
from kbench.schemas import DataError, UserError, arrow_schema
from kbench.schemas.errors import first_line
from kbench.schemas.ids import content_hash
from kbench.schemas.record import field_types

if TYPE_CHECKING:
    import pyarrow as pa


MARK = b"kbench.config"
"""Key of the schema's metadata under which a file names its config."""


def marked(schema: pa.Schema, config: Config) -> pa.Schema:
    """The schema with its config's name: two configs may have the same columns."""
    return schema.with_metadata({MARK: config.name.encode()})


def describe_shards(paths: Iterable[Path]) -> dict[str, list[tuple[Path, FileEntry]]]:
    """Files by config, described as a manifest would."""
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
    """A whole file."""
    import pyarrow as pa

    return pa.concat_tables(row_groups(path))


def row_groups(path: Path) -> Iterator[pa.Table]:
    """The row groups of a file, one at a time; an empty table where there is none."""
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


VERSION = "1"
"""Of what is verified: what an earlier version let pass is looked at again."""
KEPT = "verified"
"""Folder in the data folder with one empty file for each state of a corpus that was verified."""
MOST_KEPT = 256
LISTED_VALUES = 1024
"""A facet with more values than this is not listed in the manifest."""
FIX = "fetch the corpus again"

Fault = tuple[str | None, Any, str]
"""Field, value and message."""


def verify(folder: Path, manifest: Manifest) -> None:
    """Refuse a corpus that is not what its manifest says."""
    for path, _, _, message in manifest.faults(folder):
        raise DataError(f"{path} {message}; {FIX}")
    state = _state(folder, manifest)
    mark = data_home() / KEPT / state
    if mark.is_file():
        return
    for name, entries in manifest.files.items():
        for entry in entries:
            for field, value, message in _faults(CONFIGS[name], folder / entry.path, entry):
                value_shown = "" if field is None else f"{field} is {value!r:.80}: "
                raise DataError(f"{folder / entry.path}: {value_shown}{message}; {FIX}")
    if _state(folder, manifest) == state:
        with suppress(OSError):  # a folder that cannot be written costs a second look, nothing else
            mark.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(mark, b"")
            marks = sorted(mark.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
            for old in marks[:-MOST_KEPT]:
                old.unlink(missing_ok=True)


def _state(folder: Path, manifest: Manifest) -> str:
    """A name for the corpus as it lies there; the time of the last change cannot be set back as that of a write can."""
    paths = [folder / entry.path for entries in manifest.files.values() for entry in entries]
    facts = [path.stat() for path in paths]
    files = [f"{f.st_dev} {f.st_ino} {f.st_size} {f.st_mtime_ns} {f.st_ctime_ns}" for f in facts]
    return content_hash("verified", VERSION, manifest.to_json(), *map(str, paths), *files)


def _faults(config: Config, path: Path, entry: FileEntry) -> Iterator[Fault]:
    import pyarrow as pa

    # The bytes first: what is not as it was published is not parsed.
    if os.stat(path).st_size != entry.bytes or file_sha256(path) != entry.sha256:
        yield None, None, "its bytes differ from the manifest's hash"
        return
    try:
        contents = Contents.of(config, (with_all_columns(config, part) for part in row_groups(path)))
        yield from manifest_faults(config, path, entry, contents)
        if config.is_split and entry.split != WHOLE and contents.splits - {entry.split}:
            yield "split", entry.split, "the file holds rows of another split"
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        yield None, None, f"it does not have the columns of config {config.name!r} ({str(error).splitlines()[0][:120]})"


def with_all_columns(config: Config, table: pa.Table) -> pa.Table:
    """The table with all columns of its config; those that joined later are null in older files."""
    import pyarrow as pa

    schema = arrow_schema(config.record)
    strange = sorted(set(table.column_names) - set(schema.names))
    if strange:
        raise DataError(f"column {strange[0]!r:.80} is none of config {config.name!r}")
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names)


@dataclasses.dataclass(slots=True)
class Contents:
    """What a manifest states of a file's rows."""

    rows: int = 0
    rows_hash: int = 0
    values: dict[str, set[str]] = dataclasses.field(default_factory=dict)
    """Of each facet; those of a facet with many values are more than a manifest lists."""
    splits: set[str | None] = dataclasses.field(default_factory=set)

    @classmethod
    def of(cls, config: Config, parts: Iterable[pa.Table]) -> Contents:
        """Read the parts of a file, one at a time."""
        import pyarrow.compute as pc

        from kbench.loaders.corpus.fingerprint import MODULUS, rows_hash

        contents = cls(values={name: set() for name in config.facets})
        for part in parts:
            contents.rows += part.num_rows
            contents.rows_hash = (contents.rows_hash + rows_hash(part, config.later)) % MODULUS
            for name, values in contents.values.items():
                values.update(value for value in pc.unique(part.column(name)).to_pylist() if value is not None)
            if config.is_split:
                contents.splits.update(pc.unique(part.column("split")).to_pylist())
        return contents

    @property
    def listed(self) -> dict[str, tuple[str, ...]]:
        """The values of each facet that has few."""
        return {name: tuple(sorted(values)) for name, values in self.values.items() if len(values) <= LISTED_VALUES}


def manifest_faults(config: Config, path: Path, entry: FileEntry, contents: Contents) -> Iterator[Fault]:
    """What the manifest says of a file and is not so; other rows explain all the rest."""
    if contents.rows != entry.rows:
        yield "rows", contents.rows, f"the manifest says {entry.rows}"
    elif f"{contents.rows_hash:064x}" != entry.rows_hash:
        yield None, None, "the content differs from what the manifest's hash says"
    elif path.stat().st_size != entry.bytes:
        yield "bytes", path.stat().st_size, f"the manifest says {entry.bytes}"
    elif file_sha256(path) != entry.sha256:
        yield "sha256", file_sha256(path), f"the manifest says {entry.sha256}"
    else:
        # By a wrong list a filter would skip the file, or read it for nothing.
        for name, listed in entry.values.items():
            if name not in config.facets:
                yield name, None, "the manifest lists values of it, but it is not a facet"
            for value in sorted(set(contents.listed.get(name, ())) ^ set(listed))[:1]:
                where = "the manifest lists it, the file lacks it" if value in listed else "the manifest leaves it out"
                yield name, value, f"{where}; filters skip files by this list"
