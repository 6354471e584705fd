"""Kernels of the release, gathered from all its datasets: one row per kernel and GPU, whichever dataset names it."""

from __future__ import annotations

from collections.abc import Iterator

from kbench.loaders.importers.rows import Row
from kbench.loaders.importers.sink import Place
from kbench.loaders.splits import HELD_OUT

MEASURED = ("status", "error", "runtime_us", "speedup", "search_method", "proposer", "run_id", "step", "parent_id")
"""What only the search events know."""


class PublishedKernels:
    """Merges rows: figures come from the search events, the split is the most held out of all that name the kernel."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str | None], tuple[Row, Place]] = {}

    def add(self, row: Row, place: Place) -> Row:
        """Take a kernel, or what is new about a known one."""
        key = (row["kernel_id"], row["gpu"])
        if key not in self._rows:
            self._rows[key] = (row, place)
            return row
        known = self._rows[key][0]
        known["split"] = max(known["split"], row["split"], key=HELD_OUT.index)
        if known["status"] is None and (row["status"] is not None or row["run_id"] != known["run_id"]):
            known |= {name: row[name] for name in MEASURED if row[name] is not None}
        return known

    def splits(self) -> dict[str, str]:
        """The most held out split of each kernel id."""
        found: dict[str, str] = {}
        for row, _ in self._rows.values():
            found[row["kernel_id"]] = max(found.get(row["kernel_id"], "train"), row["split"], key=HELD_OUT.index)
        return found

    def rows(self) -> Iterator[tuple[Row, Place]]:
        """Every kernel; one known on two GPUs has one split."""
        splits = self.splits()
        for row, place in self._rows.values():
            yield row | {"split": splits[row["kernel_id"]]}, place
