"""LogEntry: one fact in a log, as a line of JSON. In a corpus the same fact is a kbench.schemas.Event."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Callable, Mapping
from typing import Any

from kbench.loaders.storage.lines import parse_json
from kbench.schemas import DataError, Event

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

    def event(self, payload: Mapping[str, Any] | None = None) -> Event:
        """The fact as a corpus record, with its own payload or a shortened one."""
        text = json.dumps(self.payload if payload is None else payload, sort_keys=True, ensure_ascii=False)
        return Event(
            run_id=self.run_id, index=self.index, kind=self.kind, step=self.step, at=self.at, payload_json=text
        )


def parse_entry(line: str, where: str) -> LogEntry:
    """Read one line strictly.

    Raises:
        DataError: names the place and what is wrong with it.
    """
    data = parse_json(line, where)
    if not isinstance(data, dict) or tuple(sorted(data)) != FIELDS:
        found = sorted(data) if isinstance(data, dict) else type(data).__name__
        raise DataError(f"{where} has fields {found}; a log line has {list(FIELDS)}")
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
