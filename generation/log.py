"""The append-only log: JSON lines, one fsync a batch, many runs a file.

A run folder holds `events.jsonl`, and may hold compressed earlier parts `events-NNN.jsonl.xz` (kbench.generation.pack).
Killing the writer at any byte loses at most the line being written: a damaged last line is cut off on the next open,
damage anywhere else is refused with its line and offset.
"""

from __future__ import annotations

import fcntl
import gzip
import lzma
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self, cast

from kbench.generation.entry import Entry, parse_entry
from kbench.schemas import DataError, UserError

LIVE_NAME = "events.jsonl"
PART_PATTERN = "events-*.jsonl.*"


def log_files(path: Path) -> list[Path]:
    """The files of a log in reading order: packed parts first, the live file last.

    Args:
        path: a run folder, or one log file.

    Raises:
        UserError: when there is no log there.
    """
    if path.is_file():
        return [path]
    files = sorted(path.glob(PART_PATTERN))
    live = path / LIVE_NAME
    if live.is_file():
        files.append(live)
    if not files:
        raise UserError(f"no search log in {str(path)!r}; expected {LIVE_NAME} or events-NNN.jsonl.xz in it")
    return files


def open_log(path: Path) -> IO[bytes]:
    """A log file for reading, decompressed where its name says it is compressed."""
    if path.suffix == ".xz":
        return lzma.open(path, "rb")
    if path.suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    return path.open("rb")


def _read_file(path: Path) -> Iterator[tuple[Entry, int]]:
    """Entries with the offset just behind each; stops quietly before a damaged last line."""
    offset = 0
    with open_log(path) as stream:
        waiting: tuple[bytes, int, int] | None = None
        for number, line in enumerate(stream, 1):
            if waiting is not None:
                yield _entry(path, *waiting), waiting[2] + len(waiting[0])
            waiting = (line, number, offset)
            offset += len(line)
        if waiting is not None:
            last = _last_entry(path, *waiting)
            if last is not None:
                yield last, offset


def _entry(path: Path, line: bytes, number: int, offset: int) -> Entry:
    where = f"{path}: line {number} at byte {offset}"
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise DataError(f"{where} is not UTF-8; the log is damaged: restore it from a copy") from None
    return parse_entry(text, where)


def _last_entry(path: Path, line: bytes, number: int, offset: int) -> Entry | None:
    if not line.endswith(b"\n"):
        return None
    try:
        return _entry(path, line, number, offset)
    except DataError:
        return None


def read_log(path: Path) -> Iterator[Entry]:
    """Every entry of a log, in order; each run's indices are checked to have no gap.

    Raises:
        DataError: names file, line and offset of damage, or the run and index of a gap.
    """
    expected: dict[str, int] = {}
    for file in log_files(path):
        for entry, _ in _read_file(file):
            want = expected.get(entry.run_id, 0)
            if entry.index != want:
                raise DataError(
                    f"{file}: run {entry.run_id!r} jumps to index {entry.index}, expected {want}; "
                    "a part is missing or out of order"
                )
            expected[entry.run_id] = want + 1
            yield entry


class LogWriter:
    """Appends batches of entries to the live file of a run folder; one writer at a time."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / LIVE_NAME
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise UserError(
                f"{self.path} is being written by another search; wait for it or choose another --out"
            ) from None
        self._cut_damaged_end()

    def _cut_damaged_end(self) -> None:
        good = 0
        for _, end in _read_file(self.path):
            good = end
        os.ftruncate(self._descriptor, good)
        os.lseek(self._descriptor, good, os.SEEK_SET)

    def append(self, entries: Sequence[Entry]) -> None:
        """Write a batch and wait until it is on disk."""
        if not entries:
            return
        data = memoryview("".join(entry.line() for entry in entries).encode())
        while data:
            data = data[os.write(self._descriptor, data) :]
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Release the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def by_run(entries: Iterable[Entry]) -> dict[str, list[Entry]]:
    """Entries grouped by run, runs in order of their first entry."""
    runs: dict[str, list[Entry]] = {}
    for entry in entries:
        runs.setdefault(entry.run_id, []).append(entry)
    return runs
