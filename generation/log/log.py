"""The append-only log: one fact per line, one fsync per batch, many runs in a file.

A run folder holds `events.jsonl`, and may hold compressed earlier parts `events-NNN.jsonl.xz` (see `log.pack`).
kbench.loaders.storage.lines says how the file is repaired after a writer was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from kbench.generation.log.entry import LogEntry, parse_entry
from kbench.loaders.storage.lines import LineWriter, read_lines
from kbench.schemas import DataError, UserError

LIVE_NAME = "events.jsonl"
PART_PATTERN = "events-*.jsonl.xz"


def found_files(folder: Path) -> list[Path]:
    """The files of the log in a folder in reading order: packed parts first, the live file last."""
    live = folder / LIVE_NAME
    return [*sorted(folder.glob(PART_PATTERN)), *([live] if live.is_file() else [])]


def log_files(path: Path) -> list[Path]:
    """The files of a log in reading order.

    Args:
        path: a run folder, or one log file.

    Raises:
        UserError: when there is no log there.
    """
    files = [path] if path.is_file() else found_files(path)
    if not files:
        raise UserError(f"no search log in {str(path)!r}; expected {LIVE_NAME} or events-NNN.jsonl.xz in it")
    return files


def read_log(path: Path) -> Iterator[LogEntry]:
    """Every entry of a log, in order; each run's indices are checked to have no gap.

    Raises:
        DataError: names file, line and offset of damage, or the run and index of a gap.
    """
    expected: dict[str, int] = {}
    for file in log_files(path):
        for entry, _ in read_lines(file, parse_entry):
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
        self.path = folder / LIVE_NAME
        self._lines = LineWriter(self.path, parse_entry)

    def append(self, entries: Sequence[LogEntry]) -> None:
        """Write a batch and wait until it is on disk."""
        self._lines.append(entry.line() for entry in entries)

    def close(self) -> None:
        """Release the file."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


def by_run(entries: Iterable[LogEntry]) -> dict[str, list[LogEntry]]:
    """Entries grouped by run, runs in order of their first entry."""
    runs: dict[str, list[LogEntry]] = {}
    for entry in entries:
        runs.setdefault(entry.run_id, []).append(entry)
    return runs
