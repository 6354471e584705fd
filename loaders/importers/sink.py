"""The sink: rows go through the same checks as a validated corpus, once each, and out to the writer in batches."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from kbench.loaders.checks import columns as checks
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import RowError
from kbench.loaders.importers.rows import Row
from kbench.schemas import arrow_schema

BATCH_ROWS = 4096

Place = tuple[Path, object]
"""File and row something was read from."""


class Sink:
    """Collects rows of all configs; use it as a context manager inside the writer's."""

    def __init__(self, writer: CorpusWriter, context: Context) -> None:
        """Start empty.

        Args:
            writer: an entered writer.
            context: the import, told of rows, duplicates and bad rows.
        """
        self._writer, self._context = writer, context
        self._waiting: dict[str, list[tuple[Place, Row]]] = {}
        # Keys of a million rows would be hundreds of megabytes as Python texts; a file that deletes itself is not.
        self._seen = sqlite3.connect("", isolation_level=None)
        self._seen.execute("PRAGMA journal_mode=OFF")
        self._seen.execute("PRAGMA synchronous=OFF")
        self._seen.execute("CREATE TABLE seen (key TEXT PRIMARY KEY) WITHOUT ROWID")
        self._seen.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        self._seen.close()

    def add(self, config: str, row: Row, place: Place) -> bool:
        """Take a row.

        Returns:
            whether it is new; a row whose key came before is left out and counted.
        """
        key = "\x1f".join([config, *(str(row[name]) for name in CONFIGS[config].key)])
        if not self._seen.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount:
            names = "+".join(CONFIGS[config].key)
            self._context.note(f"{config}: left out, because an earlier row has the same {names}")
            return False
        waiting = self._waiting.setdefault(config, [])
        waiting.append((place, row))
        if len(waiting) >= BATCH_ROWS:
            self._write(config)
        return True

    def flush(self) -> None:
        """Hand everything to the writer."""
        for config in list(self._waiting):
            self._write(config)

    def _write(self, config: str) -> None:
        waiting = self._waiting.pop(config)
        schema = arrow_schema(CONFIGS[config].record)
        table = pa.Table.from_pylist([row for _, row in waiting], schema=schema)
        wrong: dict[int, RowError] = {}
        for issue in _issues(config, table):
            if issue.row is not None:
                wrong.setdefault(issue.row, RowError(str(issue.field), issue.value, issue.message))
        if wrong:
            for row, error in sorted(wrong.items()):
                self._context.bad(*waiting[row][0], error)
            rest = [item for row, item in enumerate(waiting) if row not in wrong]
            if rest:
                # What was left out of a report of many is found in the next round.
                self._waiting[config] = rest
                self._write(config)
            return
        self._writer.append(config, table)
        self._context.report.rows[config] += table.num_rows


def _issues(config: str, table: pa.Table) -> Iterator[Any]:
    yield from checks.column_issues(CONFIGS[config], table, "")
    yield from checks.status_issues(table, "")
    yield from checks.interval_issues(table, "")
