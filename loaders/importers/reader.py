"""A format: how its files are told, and what each of their entries becomes. Every importer but one is such a class.

Beside it stands one import: what it was told, and what came of it, with the fate of every entry and every null.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, overload

from kbench.loaders.importers.fields import RowError, plain, shown
from kbench.loaders.importers.inputs import digest, gpu_named
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.rows import Row, Source, kernel_row, measurement_row
from kbench.schemas import DataError


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """What an entry of a file becomes."""

    kernel: Row
    problem: Callable[[], Row]
    """The row of its problem, asked for once for each problem of a file."""
    measurements: Sequence[Row]
    """Those without a GPU or a verdict are left out."""
    event: Row | None = None


class Reader(abc.ABC):
    """Reads one file of a format, or one folder of a format whose entries are folders of files."""

    NAME: ClassVar[str]
    FAMILY: ClassVar[str]
    """Of its kernels' problems."""
    BY_FOLDER: ClassVar[bool] = False
    PROBLEM_STATED: ClassVar[bool] = False
    """Whether the caller may name the problem."""
    OVER_WORKLOADS: ClassVar[bool] = False
    """Whether entries about one kernel are its workloads, so that one failure is the kernel's; else they are runs."""

    def __init__(self, path: Path, context: Context) -> None:
        """Prepare to read a file or folder."""
        self.path, self.context = path, context

    @staticmethod
    def looks_like(opening: Opening) -> bool:
        """Whether a file of JSON may be of this format."""
        return False

    @staticmethod
    def columns_fit(columns: Sequence[str]) -> bool:
        """Whether a Parquet file with these columns may be of this format."""
        return False

    @staticmethod
    def folder_fits(folder: Path) -> bool:
        """Whether a folder may hold files of this format."""
        return False

    @abc.abstractmethod
    def records(self) -> Iterator[tuple[object, Any]]:
        """Each entry as it is read, after where it stands."""

    @abc.abstractmethod
    def entry(self, place: object, record: Any) -> Entry | str:
        """What an entry becomes; a text says why it is left out.

        Raises:
            RowError: a field is missing, is not what it must be, or contradicts another.
        """

    def gpu(self, stated: str | None, missing: str) -> str | None:
        """The GPU of an entry: what the file states, else what the caller says of this file, of all files, or its name.

        Args:
            stated: what the file states; None when it states nothing.
            missing: the reason to record when nobody says.
        """
        file, gpus = self.path, self.context.settings.gpus
        known = self.context.known("gpu", stated, gpus.get(str(file)) or gpus.get(file.name))
        if known is not None:
            return known
        named = gpu_named(file)
        if named is not None:
            self.context.note(f"rows whose GPU, {named}, is read from the name of {plain(file.name)}")
        else:
            self.context.null("gpu", f"{missing}; state it with --gpu, or --gpu {plain(file.name)}=NAME")
        return named

    def kernel(
        self, problem_id: str, source: Source, *, gpu: str | None, family: str | None = None,
        license: str | None = None, missing: str = "the file states none", **figures: Any,
    ) -> Row:  # fmt: skip
        """A row of the kernels table.

        Args:
            problem_id: the problem.
            source: what the kernel is written in, its text, and what else its row needs of it.
            gpu: where it was measured.
            family: the problem's family, where it is not the format's.
            license: the licence that the entry states.
            missing: why there may be none, for the report.
            **figures: further fields.
        """
        backend, text, more = source
        known_license = self.context.known("license", license)
        if known_license is None:
            self.context.null("license", f"{missing}; state it with --license")
        return kernel_row(
            problem_id, family or self.FAMILY, backend, text, gpu=gpu, origin=f"{self.NAME} {plain(self.path.name)}",
            license=known_license, split=self.context.settings.split, **more, **figures,
        )  # fmt: skip

    def measured(self, kernel: Row, place: object, workload: str = "published", **figures: Any) -> Row:
        """A row of the measurements table, with the kernel's figures unless others are given."""
        return measurement_row(kernel, workload, f"{self._digest}/{place}", **figures)

    @functools.cached_property
    def _digest(self) -> str:
        return digest(self.path)


KEPT_BAD_ROWS = 1000
"""Bad rows listed in the report; the rest are counted."""
NEW, AGAIN, BAD = "kernels", "further measurements of a kernel that an earlier entry holds", "bad rows"
"""What becomes of an entry, besides being left out for a reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ImportSettings:
    """What the caller states about files that do not state it themselves."""

    on_bad_rows: str = "error"
    """error stops at the first bad row; skip leaves it out and reports it."""
    gpu: str | None = None
    gpus: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """GPU by file: its path as given, or its name."""
    license: str | None = None
    unit: str | None = None
    """Unit of times: s, ms, us or ns."""
    suite: str | None = None
    """KernelBench suite: v0 or v0.1."""
    level: int | None = None
    """KernelBench level."""
    first_id: int | None = None
    """Number of the first KernelBench problem in the file: 0 or 1."""
    problem: str | None = None
    """The problem that every kernel solves, for formats whose files may name none."""
    split: str = "test"
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """For tables: the column each field is read from."""
    revisions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Commit the files are of, by dataset of the published release."""


@dataclasses.dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be imported."""

    file: str
    row: str
    """Which entry of the file it is, counted from 1, with the name that its format gives it; or that name alone."""
    field: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}, entry {self.row}: {self.field} is {self.value}: {self.message}"


@dataclasses.dataclass(slots=True)
class Report:
    """What an import found."""

    format: str = ""
    rows: Counter[str] = dataclasses.field(default_factory=Counter)
    """Rows written, by config."""
    sources: dict[str, Counter[str]] = dataclasses.field(default_factory=dict)
    """By file: how many entries became what. Every entry is counted once, so the counts add up to the entries."""
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
            "sources": [
                {"file": file, "entries": fates.total(), "became": {fate: n for fate, n in fates.items() if n}}
                for file, fates in self.sources.items()
            ],
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

    def became(self, file: Path, fate: str, times: int = 1) -> None:
        """Count what an entry of a file became: a kernel, a further measurement, or why it was left out."""
        self.report.sources.setdefault(plain(str(file)), Counter())[fate] += times

    def bad(self, file: Path, row: object, error: RowError, *, entry: bool = True) -> None:
        """Report a bad row.

        Args:
            file: the file.
            row: which entry of the file: its number from 1, or its name.
            error: what is wrong.
            entry: whether it is an entry of its own, rather than one of several rows an entry became.
        """
        row_error = BadRow(plain(str(file)), plain(str(row)), error.field, error.value, error.message)
        if entry:
            self.became(file, BAD)
        if self.settings.on_bad_rows == "error":
            raise DataError(f"{row_error}; correct it, or skip bad rows with --on-bad-rows skip")
        self.report.bad_count += 1
        if len(self.report.bad) < KEPT_BAD_ROWS:
            self.report.bad.append(row_error)

    @overload
    def known(self, option: str, stated: str) -> str: ...
    @overload
    def known(self, option: str, stated: str | None, told: str | None = None) -> str | None: ...
    def known(self, option: str, stated: str | None, told: str | None = None) -> str | None:
        """What a file or its format states, else what the caller does.

        A caller who contradicts the file is noted and not obeyed: one option covers many files, and a row that names
        another GPU, unit or licence would become false without a trace.

        Args:
            option: gpu, unit or license.
            stated: what the file states; None when it states nothing.
            told: what the caller says of this file; the option when left out.
        """
        told = told or getattr(self.settings, option)
        if stated is not None and told not in (None, stated):
            self.note(f"--{option} {told} was not used: {shown(stated)} is stated")
        return told if stated is None else stated

    def null(self, field: str, reason: str) -> None:
        """Count a value that is null because nobody states it."""
        self.report.nulls[f"{field}: {reason}"] += 1

    def note(self, text: str, times: int = 1) -> None:
        """Count something worth knowing."""
        self.report.notes[text] += times
