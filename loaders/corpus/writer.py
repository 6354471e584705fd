"""Write a corpus: shards first, then card, metadata and manifest together, then away with what nothing names.

At every moment the folder opens as the state before or the state after a commit, whenever the writer is killed: for us
by its manifest, for `datasets` by its card. No shard that either of them names is ever removed or replaced.
"""

from __future__ import annotations

import errno
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kbench.loaders.corpus.configs import CONFIGS, WHOLE, Config, config
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.manifest import (
    CARD,
    CROISSANT,
    EMPTY,
    EVAL,
    LEDGER,
    NAME,
    PLOTS,
    FileEntry,
    Manifest,
    covering,
    read_manifest,
)
from kbench.loaders.corpus.shards import Contents, marked
from kbench.loaders.storage import janitor
from kbench.loaders.storage.atomic import ENDING, file_sha256, replace_in_order, write_new
from kbench.loaders.storage.lock import held
from kbench.loaders.storage.scratch import remove_tree
from kbench.schemas import DataError, InfrastructureError, Record, UserError, arrow_schema, to_dict
from kbench.schemas.status import TIMED_FIELDS

ROW_GROUP_ROWS = 8192
"""Few enough that a filter by facets skips most of a large file, enough to compress well."""
PAGE_BYTES = 8 * 2**20
"""Kernels of one problem are near-copies of each other: they compress together when they share a page."""
LEVEL, DENSE_LEVEL = 12, 19
"""zstd levels: of every writer (about 50 MB/s), and of files that are written once and kept (5 MB/s, 8 % smaller)."""
SHARD_ROWS = 65_536
"""Rows of a file, and rows held in memory before one is written."""


class CorpusWriter:
    """Appends to a corpus, or starts one; use it as a context manager.

    A clean exit commits; an exception leaves the corpus as it was.
    """

    def __init__(self, path: str | os.PathLike[str], level: int = LEVEL, shard_bytes: int | None = None) -> None:
        """Prepare to write.

        Args:
            path: the corpus folder; made when missing.
            level: how hard files are compressed; DENSE_LEVEL for a corpus that is published.
            shard_bytes: bytes of rows after which a shard is written, however few its rows; no bound when left out.

        Raises:
            UserError: the target cannot be written, is not a corpus, or another process is writing to it.
        """
        self.folder = Path(path)
        self._level, self._shard_bytes = level, shard_bytes or sys.maxsize
        self._files: dict[str, list[FileEntry]] = {}
        self._buffers: dict[str, list[pa.Table]] = {}
        self._new: list[Path] = []
        self._lock, self._begins = ExitStack(), False
        self.release: str | None = None
        """The release that the next commit makes, such as 2.2.0; a change of rows takes an earlier one away."""

    def __enter__(self) -> Self:
        with plain_errors(self.folder):
            self._lock.enter_context(held(self.folder))
            if not any(self.folder.iterdir()):
                # A corpus that begins here is there after its first commit, and not at all before.
                janitor.watch_path(self.folder)
                self._begins = True
            try:
                manifest = existing(self.folder)
                self._files = {name: list(entries) for name, entries in manifest.files.items()}
                self.release = manifest.release
            except BaseException:
                self._end()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self._discard()
            self._end()

    def _end(self) -> None:
        """Give up the folder; one that holds no corpus holds nothing."""
        if self._begins:
            for path in self.folder.iterdir():
                remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
            janitor.forget_path(self.folder)
        self._lock.close()

    def append(self, name: str, rows: Iterable[Record] | pa.Table) -> None:
        """Add rows to a config.

        Args:
            name: the config.
            rows: records of its type, or a table with its columns.

        Raises:
            DataError: a column is missing, unknown or of the wrong type.
        """
        chosen = config(name)
        table = conform(chosen, rows) if isinstance(rows, pa.Table) else config_table(name, rows)
        if table.num_rows:
            self._buffers.setdefault(name, []).append(table)
            self.release = None
        waiting = self._buffers.get(name, [])
        rows, size = sum(part.num_rows for part in waiting), sum(part.nbytes for part in waiting)
        if rows >= SHARD_ROWS or size >= self._shard_bytes:
            self._flush(name)

    def replace(self, name: str, rows: Iterable[Record] | pa.Table) -> None:
        """Put rows in place of all a config had."""
        self._files[name] = []
        self.release = None
        self._buffers.pop(name, None)
        self.append(name, rows)

    def commit(self) -> str:
        """Make everything appended so far part of the corpus.

        Returns:
            the corpus's new fingerprint.
        """
        from kbench.loaders.card.card import describe

        for name in list(self._buffers):
            self._flush(name)
        files_by_config = {name: tuple(self._files[name]) for name in CONFIGS if self._files.get(name)}
        manifest = Manifest(files_by_config, release=self.release)
        with plain_errors(self.folder):
            files = describe(Corpus.of(self.folder, manifest), self.folder)
            stated = covering(self.folder, manifest, files).to_json()
            replace_in_order(self.folder, {**files, NAME: stated.encode()})
            if self._begins:
                janitor.forget_path(self.folder)
            self._begins = False
            self._new.clear()
            remove_strays(self.folder, manifest)
        return manifest.fingerprint

    def _flush(self, name: str) -> None:
        chosen = config(name)
        table = pa.concat_tables(self._buffers.pop(name))
        parts = [
            (split, part.slice(start, SHARD_ROWS))
            for split, part in _by_split(chosen, table)
            for start in range(0, part.num_rows, SHARD_ROWS)
        ]
        for split, part in parts:
            shard = part.sort_by([(column, "ascending") for column in chosen.sort])
            contents = Contents.of(chosen, [shard])
            total = f"{contents.rows_hash:064x}"
            shard = shard.replace_schema_metadata(marked(shard.schema, chosen).metadata)
            with plain_errors(self.folder):
                (self.folder / name).mkdir(exist_ok=True)
                path = write_new(self._places(chosen, split, total), partial(_write_parquet, shard, self._level))
                size, sha256 = path.stat().st_size, file_sha256(path)
            relative, version = path.relative_to(self.folder).as_posix(), chosen.record.VERSION
            entry = FileEntry(relative, split, shard.num_rows, size, sha256, total, version, contents.listed)
            self._files.setdefault(name, []).append(entry)

    def _places(self, chosen: Config, split: str, total: str) -> Iterator[Path]:
        """Paths for a shard, by number; the first may be taken: an earlier kbench put the same rows in other bytes."""
        names = [Path(entry.path).name for entry in self._files.get(chosen.name, [])]
        first = 1 + max((int(name.rsplit("-", 2)[1]) for name in names), default=-1)
        for number in itertools.count(first):
            path = self.folder / chosen.name / f"{split}-{number:05d}-{total[:16]}.parquet"
            # Noted before it is written, so that nothing is left whatever ends the writing.
            self._new.append(path)
            yield path

    def _discard(self) -> None:
        """Remove what was written since the last commit, unless a writer that was killed left a card that names it."""
        named = texts(self.folder) if self._new else ""
        for path in self._new:
            if path.relative_to(self.folder).as_posix() not in named:
                path.unlink(missing_ok=True)
        self._new.clear()
        self._buffers.clear()


def refresh(path: str | os.PathLike[str]) -> str:
    """Rewrite what describes a corpus; its rows stay."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(path)
    read_manifest(folder)
    if folder.resolve().is_relative_to(Path(HF_HUB_CACHE).resolve()):
        raise UserError(
            f"path {str(folder)!r} lies in the Hub's cache, whose files stay as they were fetched; "
            "make a copy of your own with kbench data fetch"
        )
    with CorpusWriter(path) as writer:
        return writer.commit()


def compact(path: str | os.PathLike[str]) -> str:
    """Rewrite a corpus with few, sorted, densely compressed shards; rows and fingerprint stay.

    Works one problem at a time, so that memory is bounded by the largest problem.
    """
    corpus = Corpus.open(path)
    with CorpusWriter(path, DENSE_LEVEL) as writer:
        for name in corpus.configs:
            parts = list(_portions(corpus, name)) if corpus.rows(name) <= SHARD_ROWS else _portions(corpus, name)
            writer.replace(name, config_table(name, []))
            for table in parts:
                writer.append(name, table)
        writer.release = corpus.manifest.release
    return Corpus.open(path).fingerprint


def _portions(corpus: Corpus, name: str) -> Iterator[pa.Table]:
    problems = corpus.manifest.values(name, "problem_id")
    if not problems or corpus.rows(name) <= SHARD_ROWS:
        yield corpus.table(name)
        return
    for problem in sorted(problems):
        yield corpus.table(name, problem=problem)


def _by_split(chosen: Config, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    if not chosen.is_split:
        yield WHOLE, table
        return
    known = set(chosen.splits)
    for split in pc.unique(table.column("split")).to_pylist():
        if split not in known:
            raise DataError(f"config {chosen.name!r}: split is {split!r}; it must be one of {', '.join(chosen.splits)}")
    for split in chosen.splits:
        part = table.filter(pc.equal(table.column("split"), split))
        if part.num_rows:
            yield split, part


def _write_parquet(table: pa.Table, level: int, file: IO[bytes]) -> None:
    # No dictionaries: ids and times hardly repeat, and zstd finds what does. Times fill every bit of their mantissa, so
    # only their sign and exponent bytes compress, once they lie together.
    pq.write_table(
        table, file, compression="zstd", compression_level=level, row_group_size=ROW_GROUP_ROWS,
        data_page_size=PAGE_BYTES, use_dictionary=False,
        column_encoding={name: "BYTE_STREAM_SPLIT" for name in TIMED_FIELDS if name in table.column_names},
        write_statistics=True, write_page_index=True,
        use_content_defined_chunking={"min_chunk_size": PAGE_BYTES // 4, "max_chunk_size": PAGE_BYTES},
    )  # fmt: skip


def config_table(name: str, rows: Iterable[Record]) -> pa.Table:
    """Records as a table of their config."""
    chosen, listed = config(name), list(rows)
    for row in listed:
        if type(row) is not chosen.record:
            raise DataError(f"config {chosen.name!r} takes {chosen.record.TYPE} records, got {type(row).__name__}")
    return pa.Table.from_pylist([to_dict(row) for row in listed], schema=arrow_schema(chosen.record))


def conform(chosen: Config, table: pa.Table) -> pa.Table:
    """The table with exactly the config's columns and types."""
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
            kind = table.schema.field(field.name).type
            raise DataError(f"column {field.name!r} of config {chosen.name!r} is {kind}; it must be {field.type}")
    return table.cast(schema)


def _same_family(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps meaning: widths and string layouts may differ, text must not become numbers."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    kinds = pa.types
    if kinds.is_null(kind) or kind == wanted:
        return True
    if kinds.is_floating(wanted):
        return bool(kinds.is_floating(kind) or kinds.is_integer(kind))
    if kinds.is_string(wanted):
        return bool(kinds.is_large_string(kind) or kind == pa.string_view())
    return any(bool(is_kind(kind) and is_kind(wanted)) for is_kind in (kinds.is_integer, kinds.is_nested))


def texts(folder: Path) -> str:
    """Card and manifest as they are now."""
    paths = (folder / CARD, folder / NAME)
    return "".join(path.read_text("utf-8", "replace") for path in paths if path.is_file())


def existing(folder: Path) -> Manifest:
    """The manifest of the corpus that is there, or an empty one."""
    if (folder / NAME).exists():
        return read_manifest(folder)
    # What a writer that was killed before its first commit leaves.
    ours = (CARD, CROISSANT, EVAL, PLOTS, LEDGER, *CONFIGS)
    foreign = [item.name for item in folder.iterdir() if item.name not in ours and not item.name.endswith(ENDING)]
    if foreign:
        raise UserError(f"path {str(folder)!r} holds {foreign[0]!r} and is not a corpus; give an empty or new folder")
    return EMPTY


def remove_strays(folder: Path, manifest: Manifest) -> None:
    """Files no manifest names any more: replaced shards, and leftovers of writers that were killed."""
    named = {folder / entry.path for entries in manifest.files.values() for entry in entries}
    for name in CONFIGS:
        for path in (folder / name).glob("*.parquet"):
            if path not in named:
                path.unlink()
    for place in (folder, *(folder / name for name in (PLOTS, *CONFIGS))):
        for path in (path for path in place.glob(f".*{ENDING}") if path.is_file()):
            path.unlink()
    for name in CONFIGS:
        with suppress(OSError):  # not there, or not empty
            (folder / name).rmdir()


@contextmanager
def plain_errors(folder: Path) -> Iterator[None]:
    """An operating-system error as one line that says what to do."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise InfrastructureError(
                f"writing to {str(folder)!r} failed: {reason}; the corpus is unchanged"
            ) from error
        raise UserError(f"path {str(folder)!r} cannot be written: {reason}; choose another target") from error
