"""The append-only log of a run folder: one fact per line, one fsync per batch, many runs in a file.

A run folder holds `events.jsonl`, and may hold earlier parts of it as `events-NNN.jsonl.xz`, which `xz` makes. Beside
them lies `environments.jsonl`, the environments its measurements were made in. kbench.loaders.storage.lines says how a
file is repaired after a writer was killed. In a corpus, a fact is a kbench.schemas.Event.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas import DataError, Environment, Event, UserError, from_dict, to_dict

FIELDS = ("at", "index", "kind", "payload", "run_id", "step")

Clock = Callable[[], str]
"""Gives the current time as ISO 8601 in UTC."""


@dataclasses.dataclass(frozen=True, slots=True)
class LogEntry:
    """One fact of one run. `index` counts the run's facts from 0 without gaps."""

    run_id: str
    index: int
    kind: str
    step: int
    at: str
    payload: Mapping[str, Any]

    def line(self) -> str:
        """The entry as one line; keys sorted, so equal facts are equal bytes."""
        data = {name: getattr(self, name) for name in FIELDS}
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"

    def event(self, payload: Mapping[str, Any]) -> Event:
        """The fact as a corpus record, with a shortened payload."""
        text = json.dumps(payload, sort_keys=True, ensure_ascii=False)
        return Event(
            run_id=self.run_id, index=self.index, kind=self.kind, step=self.step, at=self.at, payload_json=text
        )


def parse_entry(line: str, where: str) -> LogEntry:
    """Read one line strictly."""
    data = parse_json(line, where)
    if not isinstance(data, dict) or tuple(sorted(data)) != FIELDS:
        names = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise DataError(f"{where} has fields {names}; a log line has {list(FIELDS)}")
    text = all(isinstance(data[name], str) for name in ("at", "kind", "run_id"))
    numbers = all(isinstance(data[name], int) and data[name] >= 0 for name in ("index", "step"))
    if not (text and numbers and isinstance(data["payload"], dict)):
        raise DataError(f"{where} has a field of the wrong type; the log is damaged: restore it from a copy")
    return LogEntry(**data)


def utc_now() -> str:
    """The current time in UTC, to the millisecond."""
    now = datetime.datetime.now(datetime.UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from one ISO 8601 time to another."""
    start, end = (datetime.datetime.fromisoformat(text.replace("Z", "+00:00")) for text in (earlier, later))
    return (end - start).total_seconds()


LIVE_NAME = "events.jsonl"
PART_PATTERN = "events-*.jsonl.xz"


def found_files(folder: Path) -> list[Path]:
    """The files of the log in a folder in reading order: compressed parts first, the live file last."""
    live = folder / LIVE_NAME
    return [*sorted(folder.glob(PART_PATTERN)), *([live] if live.is_file() else [])]


def read_log(path: Path) -> Iterator[LogEntry]:
    """Every entry of a log, in order; each run's indices are checked to have no gap."""
    expected: dict[str, int] = {}
    files = [path] if path.is_file() else found_files(path)
    if not files:
        raise UserError(f"no search log in {str(path)!r}; expected {LIVE_NAME} or events-NNN.jsonl.xz in it")
    for file in files:
        for entry, _ in read_lines(file, parse_entry):
            want = expected.get(entry.run_id, 0)
            if entry.index != want:
                raise DataError(
                    f"{file}: run {entry.run_id!r} jumps to index {entry.index}, expected {want}; "
                    "a part is missing or out of order"
                )
            expected[entry.run_id] = want + 1
            yield entry


class LogWriter(LineWriter):
    """Appends batches of entries to the live file of a run folder; one writer at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LIVE_NAME, parse_entry)

    def write(self, entries: Sequence[LogEntry]) -> None:
        """Write a batch and wait until it is on disk."""
        self.append(entry.line() for entry in entries)


def by_run(entries: Iterable[LogEntry]) -> dict[str, list[LogEntry]]:
    """Entries grouped by run, runs in order of their first entry."""
    runs: dict[str, list[LogEntry]] = {}
    for entry in entries:
        runs.setdefault(entry.run_id, []).append(entry)
    return runs


ENVIRONMENTS = "environments.jsonl"


def read_environments(path: Path) -> list[Environment]:
    """The environments of a run folder, or of the folder a log file lies in; none where none were recorded.

    Raises:
        DataError: names the line that is damaged or is not an environment.
    """
    file = (path if path.is_dir() else path.parent) / ENVIRONMENTS
    if not file.is_file():
        return []
    # Damage is what is not JSON: a last line with fields of a later version must be refused, not taken for damage.
    rows = (row for row, _ in read_lines(file, parse_json))
    return [from_dict(Environment, row, f"{file} line {number}") for number, row in enumerate(rows, 1)]


def record_environments(folder: Path, current: Sequence[Environment]) -> None:
    """Add the environments that are not in the folder yet."""
    recorded_ids = {environment.env_id for environment in read_environments(folder)}
    fresh = [environment for environment in current if environment.env_id not in recorded_ids]
    if fresh:
        with LineWriter(folder / ENVIRONMENTS, parse_json) as lines:
            lines.append(json.dumps(to_dict(environment), sort_keys=True) + "\n" for environment in fresh)
