"""A format: how its files are told, and what each of their entries becomes. Every importer but one is such a class."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kbench.loaders.importers.context import Context
from kbench.loaders.importers.fields import plain
from kbench.loaders.importers.inputs import digest
from kbench.loaders.importers.json_stream import Opening
from kbench.loaders.importers.rows import Row, Source, kernel_row, measurement_row


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
        """The GPU of an entry: see `Context.gpu`."""
        return self.context.gpu(self.path, stated, missing)

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
        return kernel_row(
            problem_id, family or self.FAMILY, backend, text, gpu=gpu, origin=f"{self.NAME} {plain(self.path.name)}",
            license=self.context.license(license, missing), split=self.context.settings.split, **more, **figures,
        )  # fmt: skip

    def measured(self, kernel: Row, place: object, workload: str = "published", **figures: Any) -> Row:
        """A row of the measurements table, with the kernel's figures unless others are given."""
        return measurement_row(kernel, workload, f"{self._digest}/{place}", **figures)

    @functools.cached_property
    def _digest(self) -> str:
        return digest(self.path)
