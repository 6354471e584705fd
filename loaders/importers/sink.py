"""The sink: rows go through the same checks as a validated corpus, once each, and out to the writer in batches."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from kbench.loaders.checks import columns as checks
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.importers.fields import RowError, plain
from kbench.loaders.importers.reader import NEW, Context
from kbench.loaders.importers.rows import NAMED, Row
from kbench.schemas import Kernel, Status, arrow_schema
from kbench.schemas.record import field_types

BATCH_ROWS, BATCH_CHARACTERS = 4096, 16 << 20
"""A batch is written when it has so many rows, or so much source text."""
CACHE_KIB = 64 << 10
"""Memory of the store of keys and kernels."""
FIGURES = ("runtime_us", "speedup")
_NOTHING = dict.fromkeys(field_types(Kernel))
_TABLES = (
    "CREATE TABLE seen (key BLOB PRIMARY KEY) WITHOUT ROWID",
    "CREATE TABLE kernels (number INTEGER PRIMARY KEY, key BLOB UNIQUE, pool TEXT, file TEXT, place TEXT,"
    " named INTEGER, row TEXT, entries INTEGER, runtimes INTEGER, runtime_logs REAL, speedups INTEGER,"
    " speedup_logs REAL)",
)

_INSERT = f"INSERT OR IGNORE INTO kernels VALUES (NULL{', ?' * 11})"

Place = tuple[Path, object]
"""File and row something was read from."""


class Sink:
    """Collects rows of all configs; use it as a context manager inside the writer's.

    Kernels wait until everything is read: an entry about a kernel that is already there adds to its row.
    """

    def __init__(self, writer: CorpusWriter, context: Context, *, over_workloads: bool = False) -> None:
        """Start empty.

        Args:
            writer: an entered writer.
            context: the import, told of rows, duplicates and bad rows.
            over_workloads: whether entries of one kernel are its workloads, so that one failure is the kernel's;
                otherwise they are runs, and a kernel that passed in one of them is correct.
        """
        self._writer, self._context, self._over_workloads = writer, context, over_workloads
        self._waiting: dict[str, list[tuple[Place, Row]]] = {}
        self._characters = 0
        self._settled = False
        self._refused: set[tuple[str, str | None]] = set()
        # A million rows would be gigabytes as Python objects; a file that deletes itself is not.
        self._store = sqlite3.connect("", isolation_level=None)
        self._store.execute("PRAGMA journal_mode=OFF")
        self._store.execute("PRAGMA synchronous=OFF")
        # Keys come in no order, and each that is not at hand costs a read and a write.
        self._store.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        for statement in _TABLES:
            self._store.execute(statement)
        self._store.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        self._store.close()

    def add(self, config: str, row: Row, place: Place) -> bool:
        """Take a row.

        Returns:
            whether it is new. An entry about a known kernel adds to it; any other row whose key came before is left
            out, and counted unless it describes a problem again.
        """
        names = "\x1f".join([config, *(str(row[name]) for name in CONFIGS[config].key)])
        key = hashlib.blake2b(names.encode(), digest_size=16).digest()
        if config == "kernels":
            return self._add_kernel(key, row, place)
        if not self._store.execute("INSERT OR IGNORE INTO seen VALUES (?)", (key,)).rowcount:
            if config != "problems":
                names = "+".join(CONFIGS[config].key)
                self._context.note(f"{config}: left out, because an earlier row has the same {names}")
            return False
        self._wait(config, row, place)
        return True

    def _add_kernel(self, key: bytes, row: Row, place: Place) -> bool:
        named = row.pop(NAMED, False)
        figures = [(int(row[name] is not None), math.log(row[name]) if row[name] else 0.0) for name in FIGURES]
        pool = f"{row['problem_id']}\x1f{row['gpu']}"
        values = (key, pool, str(place[0]), plain(str(place[1])), named, _packed(row), 1, *figures[0], *figures[1])
        if self._store.execute(_INSERT, values).rowcount:
            return True
        number, text = self._store.execute("SELECT number, row FROM kernels WHERE key = ?", (key,)).fetchone()
        merged = self._merged(_NOTHING | json.loads(text), row)
        self._store.execute(
            "UPDATE kernels SET row = ?, entries = entries + 1, runtimes = runtimes + ?, runtime_logs = runtime_logs + "
            "?, speedups = speedups + ?, speedup_logs = speedup_logs + ? WHERE number = ?",
            (_packed(merged), *figures[0], *figures[1], number),
        )
        return False

    def _merged(self, known: Row, row: Row) -> Row:
        """A kernel's row after another entry about it; its figures are averaged when all is read."""
        before, now = known["status"], row["status"]
        if before is None or now is None or before == now:
            better = before is None
        else:
            better = (now == Status.OK.value) != self._over_workloads and Status.OK.value in (before, now)
        return known | {name: row[name] for name in ("status", "error", *FIGURES)} if better else known

    def kernels(self, order: str = "number") -> Iterator[tuple[Place, bool, Row]]:
        """Every kernel that was not refused: where it was read, whether its text only names it, and its row.

        Args:
            order: `number`, as they were read, or `pool`, those of one problem and GPU together.
        """
        by = ""
        if order == "pool":
            # Without an index, sorting takes whole rows with their texts into memory.
            self._store.execute("CREATE INDEX IF NOT EXISTS pools ON kernels (pool)")
            by = "INDEXED BY pools"
        stored = self._store.execute(f"SELECT * FROM kernels {by} ORDER BY {order}")
        path_of = functools.cache(Path)
        for _, _, _, file, place, named, text, entries, *sums in stored:
            row = _NOTHING | json.loads(text)
            if entries > 1 and row["status"] == Status.OK.value:
                for name, (number, logs) in zip(FIGURES, (sums[:2], sums[2:]), strict=True):
                    complete = number == entries if self._over_workloads else number > 0
                    row[name] = math.exp(logs / number) if complete else None
            elif row["status"] != Status.OK.value:
                row |= dict.fromkeys(FIGURES)
            if (row["kernel_id"], row["gpu"]) not in self._refused:
                yield (path_of(file), place), bool(named), row

    def flush(self) -> None:
        """Hand everything to the writer; kernels that come later are not taken."""
        if not self._settled:
            self._settled = True
            for place, _, row in self.kernels():
                self._wait("kernels", row, place)
        for config in list(self._waiting):
            self._write(config)

    def _wait(self, config: str, row: Row, place: Place) -> None:
        waiting = self._waiting.setdefault(config, [])
        waiting.append((place, row))
        self._characters += len(row.get("source") or row.get("reference_source") or "")
        if len(waiting) >= BATCH_ROWS or self._characters > BATCH_CHARACTERS:
            self._write(config)
            self._characters = 0

    def _write(self, config: str) -> None:
        waiting = self._waiting.pop(config)
        schema = arrow_schema(CONFIGS[config].record)
        table = pa.Table.from_pylist([row for _, row in waiting], schema=schema)
        wrong: dict[int, RowError] = {}
        columns = checks.column_issues(CONFIGS[config], table, "")
        for issue in (*columns, *checks.status_issues(table, ""), *checks.interval_issues(table, "")):
            if issue.row is not None:
                wrong.setdefault(issue.row, RowError(str(issue.field), issue.value, issue.message))
        if wrong:
            for row, error in sorted(wrong.items()):
                place, refused = waiting[row]
                if config == "kernels":
                    self._refused.add((refused["kernel_id"], refused["gpu"]))
                    self._context.became(place[0], NEW, -1)
                self._context.bad(*place, error, entry=config == "kernels")
            rest = [item for row, item in enumerate(waiting) if row not in wrong]
            if rest:
                # What was left out of a report of many is found in the next round.
                self._waiting[config] = rest
                self._write(config)
            return
        self._writer.append(config, table)
        self._context.report.rows[config] += table.num_rows


def _packed(row: Row) -> str:
    """A kernel's row without what nobody stated, which is most of it."""
    return json.dumps({name: value for name, value in row.items() if value is not None})
