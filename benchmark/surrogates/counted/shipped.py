"""Counted work that a dataset ships in its config `plans`, so that nobody compiles those kernels again."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.surrogates.protocol import CompilerFacts
from kbench.benchmark.work.gpus import gpu_named
from kbench.benchmark.work.table import read_work_text
from kbench.benchmark.work.totals import Work
from kbench.schemas import Backend, KernelSource, UnknownNameError
from kbench.schemas.ids import kernel_id

Works = Mapping[str, Mapping[str, Sequence[Work]]]
"""What each configuration does, by kernel and workload."""
COLUMNS = ["kernel_id", "problem_id", "gpu", "workload", "registers", "spill_bytes", "work_json"]


def read_works(corpus: Tables, gpu: str, kernels: Collection[str] | None = None) -> Works:
    """Counted work of kernels on one GPU; of those named, or of all that have any.

    Raises:
        DataError: names the kernel and workload whose work is damaged.
    """
    works: defaultdict[str, dict[str, Sequence[Work]]] = defaultdict(dict)
    for row in _rows(corpus):
        if row["gpu"] == gpu and (kernels is None or row["kernel_id"] in kernels):
            works[row["kernel_id"]][row["workload"]] = read_work_text(row["work_json"], _place(row))
    return works


def _rows(corpus: Tables) -> Iterator[dict[str, Any]]:
    """Rows of `plans` with counted work."""
    if "plans" not in corpus.configs:
        return
    for part in corpus.batches("plans", columns=COLUMNS):
        yield from part.filter(part.column("work_json").is_valid()).to_pylist()


def _place(row: Mapping[str, Any]) -> str:
    return f"kernel {row['kernel_id']} workload {row['workload']!r}"


@dataclasses.dataclass(frozen=True, slots=True)
class ShippedWork:
    """Work of a corpus's kernels, found by the text that questions show. Nothing measured is read for it."""

    rows: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]] = dataclasses.field(default_factory=dict)
    """Rows of `plans`, one per workload, by compute capability and the id that the kernel's shown text would have."""

    def __bool__(self) -> bool:
        return bool(self.rows)

    @classmethod
    def of(cls, corpus: Tables) -> ShippedWork:
        """The kernels of a corpus that were counted on every timed workload of their problem."""
        counted: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for row in _rows(corpus):
            capability = _capability(row["gpu"])
            if capability is not None:
                counted[capability, row["kernel_id"]].append(row)
        whole = {key: rows for key, rows in counted.items() if _every_workload(rows)}
        shown = dict(_shown_ids(corpus, {kernel for _, kernel in whole})) if whole else {}
        return cls(
            {(capability, shown[kernel]): rows for (capability, kernel), rows in whole.items() if kernel in shown}
        )

    def facts(self, kernel: KernelSource, capability: str) -> CompilerFacts | None:
        """What a compiler would say of a kernel; None where nobody counted it.

        Raises:
            DataError: names the kernel and workload whose work is damaged.
        """
        rows = self.rows.get((capability, kernel.kernel_id))
        if rows is None or kernel.workloads_json is not None:
            return None
        registers, spills = (max(row[name] or 0 for row in rows) for name in ("registers", "spill_bytes"))
        work = {row["workload"]: read_work_text(row["work_json"], _place(row)) for row in rows}
        shared = max((one.shared_bytes for each in work.values() for one in each[0].launches), default=0)
        return CompilerFacts(registers, shared, spills, work)


def _capability(gpu: str) -> str | None:
    try:
        return gpu_named(gpu).capability
    except UnknownNameError:
        return None


def _every_workload(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the rows of a kernel cover its problem: a mean over some workloads would be another figure."""
    definition = known().get(rows[0]["problem_id"])
    return definition is not None and {row["workload"] for row in rows} == {size.name for size in definition.sizes}


def _shown_ids(corpus: Tables, kernels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Ids of kernels, each with the id of the text that questions show of it."""
    for part in corpus.batches("kernels", columns=["kernel_id", "problem_id", "backend", "normalised"]):
        for row in part.to_pylist():
            if row["kernel_id"] in kernels and row["normalised"] is not None:
                text_id = kernel_id(row["problem_id"], Backend(row["backend"]), row["normalised"])
                yield row["kernel_id"], text_id
