"""What an import was told, and what came of it: rows, bad rows, and every value that is null with the reason."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, overload

from kbench.loaders.importers.fields import RowError, shown
from kbench.schemas import DataError

KEPT_BAD_ROWS = 1000
"""Bad rows listed in the report; the rest are counted."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What the caller states about files that do not state it themselves."""

    on_bad_rows: str = "error"
    """error stops at the first bad row; skip leaves it out and reports it."""
    gpu: str | None = None
    license: str | None = None
    unit: str | None = None
    """Unit of times: s, ms, us or ns."""
    suite: str | None = None
    """KernelBench suite: v0 or v0.1."""
    level: int | None = None
    """KernelBench level."""
    first_id: int | None = None
    """Number of the first KernelBench problem in the file: 0 or 1."""
    split: str = "test"
    revisions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Commit the files are of, by dataset of the published release."""


@dataclasses.dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be imported."""

    file: str
    row: str
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}, row {self.row}: {self.field} is {self.value}: {self.message}"


@dataclasses.dataclass(slots=True)
class Report:
    """What an import found."""

    format: str = ""
    rows: Counter[str] = dataclasses.field(default_factory=Counter)
    """Rows written, by config."""
    bad: list[BadRow] = dataclasses.field(default_factory=list)
    bad_count: int = 0
    nulls: Counter[str] = dataclasses.field(default_factory=Counter)
    """How often something is null, by what and why."""
    notes: Counter[str] = dataclasses.field(default_factory=Counter)
    """Other things a reader should know, with how often."""
    differences: list[str] = dataclasses.field(default_factory=list)
    """What was announced and was not found so."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "format": self.format,
            "rows": dict(self.rows),
            "bad_rows": self.bad_count,
            "bad": [dataclasses.asdict(row) for row in self.bad],
            "nulls": dict(self.nulls),
            "notes": dict(self.notes),
            "differences": list(self.differences),
        }


@dataclasses.dataclass(slots=True)
class Context:
    """One import."""

    settings: ImportSettings
    report: Report = dataclasses.field(default_factory=Report)
    advance: Callable[[int], object] = lambda _: None
    """Told how many bytes were read since the last call."""

    def bad(self, file: Path, row: object, error: RowError) -> None:
        """Report a bad row.

        Raises:
            DataError: bad rows are not to be skipped.
        """
        found = BadRow(str(file), str(row), error.field, error.value, error.message)
        if self.settings.on_bad_rows == "error":
            raise DataError(f"{found}; correct it, or skip bad rows with --on-bad-rows skip")
        self.report.bad_count += 1
        if len(self.report.bad) < KEPT_BAD_ROWS:
            self.report.bad.append(found)

    @overload
    def known(self, option: str, stated: str) -> str: ...
    @overload
    def known(self, option: str, stated: str | None) -> str | None: ...
    def known(self, option: str, stated: str | None) -> str | None:
        """What a file or its format states, else what the caller does.

        A caller who contradicts the file is noted and not obeyed: one option covers many files, and a row that names
        another GPU, unit or licence would become false without a trace.

        Args:
            option: gpu, unit or license.
            stated: what the file states; None when it states nothing.
        """
        told: str | None = getattr(self.settings, option)
        if stated is None:
            return told
        if told is not None and told != stated:
            self.note(f"--{option} {told} was not used: {shown(stated)} is stated")
        return stated

    def null(self, field: str, reason: str) -> None:
        """Count a value that is null because nobody states it."""
        self.report.nulls[f"{field}: {reason}"] += 1

    def note(self, text: str, times: int = 1) -> None:
        """Count something worth knowing."""
        self.report.notes[text] += times
