"""Texts and samples kept once: logs and corpora may leave out what a published corpus holds of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.generation.log.entry import LogEntry
from kbench.schemas import DataError, Measurement, Status, from_dict

PROPOSED = "candidate_proposed"
KEPT = (
    "measurement_id", "kernel_id", "problem_id", "gpu", "workload", "env_id", "status", "error", "runtime_us",
    "speedup", "floor_us", "registers", "shared_bytes", "spill_bytes", "started_at", "trust", "not_restored",
)  # fmt: skip
"""Fields of a thin measurement: its identity, its verdict, and the figures a search goes by."""


def thin(
    row: Mapping[str, Any], published: Mapping[str, Mapping[str, Any]], replaced: Collection[str]
) -> dict[str, Any]:
    """A measurement without what need not be kept twice; whole, where it is published nowhere or published otherwise.

    Args:
        row: the measurement, as plain values.
        published: measurements of the corpus that holds everything, by id.
        replaced: kernels whose figures were measured again; what the old ones came from is not needed any more.
    """
    known = published.get(row["measurement_id"])
    same = known is not None and all(known.get(name) == value for name, value in row.items())
    if row["status"] == Status.OK and (same or (known is None and row["kernel_id"] in replaced)):
        return {name: value if name in KEPT else None for name, value in row.items()}
    return dict(row)


def is_thin(row: Measurement) -> bool:
    """Whether a figure is there and what it came from is not."""
    return row.runtime_us is not None and row.samples_us is None


def without_source(entry: LogEntry, published: Collection[str]) -> LogEntry:
    """A log's entry without the text of a kernel that is published, by id."""
    if entry.kind != PROPOSED or entry.payload["kernel_id"] not in published:
        return entry
    return dataclasses.replace(entry, payload={**entry.payload, "source": None})


class Samples:
    """The kernels and measurements of a published corpus, to make thin logs whole again."""

    def __init__(self, corpus: Path | None) -> None:
        """Read them, its repeats included; None has none."""
        self._rows = {} if corpus is None else published_rows(corpus)
        self._sources = {} if corpus is None else published_sources(corpus)

    def entry(self, entry: LogEntry) -> LogEntry:
        """A log's entry with the text that was left out.

        Raises:
            DataError: the corpus does not have the kernel.
        """
        if entry.kind != PROPOSED or entry.payload["source"] is not None:
            return entry
        kernel_id = entry.payload["kernel_id"]
        if kernel_id not in self._sources:
            raise DataError(f"kernel {kernel_id} of run {entry.run_id!r} has no source; {self._where(self._sources)}")
        return dataclasses.replace(entry, payload={**entry.payload, "source": self._sources[kernel_id]})

    def whole(self, rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
        """Measurements with everything that was left out.

        Raises:
            DataError: the corpus does not have one of them.
        """
        return tuple(self._whole(row) if is_thin(row) else row for row in rows)

    def complete(self, gathered: Gathered) -> Gathered:
        """The same of what was gathered from logs."""
        return dataclasses.replace(gathered, kernels=tuple(map(self.of_kernel, gathered.kernels)))

    def of_kernel(self, one: Measured) -> Measured:
        """The same of one kernel."""
        return dataclasses.replace(one, measurements=self.whole(one.measurements))

    def _whole(self, row: Measurement) -> Measurement:
        if row.measurement_id not in self._rows:
            where = self._where(self._rows)
            raise DataError(f"measurement {row.measurement_id} of kernel {row.kernel_id} has no samples; {where}")
        return from_dict(Measurement, self._rows[row.measurement_id])

    @staticmethod
    def _where(found: Collection[str]) -> str:
        return "the corpus does not have it" if found else "name the corpus that has it with --samples"


def published_sources(corpus: Path) -> dict[str, str]:
    """Texts of a corpus's kernels by id."""
    from kbench.loaders.corpus.corpus import Corpus

    table = Corpus.open(corpus).table("kernels", columns=["kernel_id", "source"])
    return dict(zip(table["kernel_id"].to_pylist(), table["source"].to_pylist(), strict=True))


def published_rows(corpus: Path) -> dict[str, dict[str, Any]]:
    """Measurements and repeats of a corpus by id, as plain values."""
    from kbench.loaders.corpus.corpus import Corpus

    opened = Corpus.open(corpus)
    tables = [opened.table(name) for name in ("measurements", "repeats") if name in opened.configs]
    return {row["measurement_id"]: row for table in tables for row in table.to_pylist()}
