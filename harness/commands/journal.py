"""Journal: finished kernels, one line each, so that a killed run continues where it stopped.

A line is written and synced when all workloads of a kernel are done; a torn last line is a kernel to do again, as
kbench.loaders.storage.lines says. At the end the lines go into a corpus, leaving out what a run killed between
committing and clearing had put there already.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import problem
from kbench.benchmark.problems.registry import edition
from kbench.harness.record import aggregate
from kbench.loaders.source.structure import structure_id
from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas import (
    DataError,
    Environment,
    Kernel,
    KernelSource,
    Measurement,
    Problem,
    UserError,
    from_dict,
    to_dict,
)

SUFFIX = ".journal.jsonl"


Entry = tuple[KernelSource, list[Measurement], list[Environment], str]
"""A finished kernel, and the version of its problem."""


class Journal:
    """The journal of one output folder."""

    def __init__(self, folder: Path) -> None:
        """Open a folder's journal, reading what an earlier run left.

        Raises:
            UserError: another run writes to the folder.
            DataError: names the line that is damaged.
        """
        self.folder = folder
        # Beside the folder, not in it: a corpus holds only what its manifest lists.
        self.path = folder.resolve().with_name(f"{folder.resolve().name}{SUFFIX}")
        self.measurements: dict[str, list[Measurement]] = {}
        self.kernels: dict[str, KernelSource] = {}
        self.environments: dict[str, Environment] = {}
        self.editions: dict[str, str] = {}
        """Versions of users' problems that the journal's kernels were measured on."""
        self._lines, self._closed = LineWriter(self.path, _entry), False
        for (kernel, measurements, environments, version), _ in read_lines(self.path, _entry):
            self._keep(kernel, measurements, environments)
            self.editions[kernel.problem_id] = version

    def add(
        self, kernel: KernelSource, measurements: Sequence[Measurement], environments: Sequence[Environment]
    ) -> None:
        """Store a finished kernel; returns when it is on disk."""
        entry: dict[str, Any] = {
            "kernel": {"problem_id": kernel.problem_id, "backend": kernel.backend.value, "source": kernel.source},
            "measurements": [to_dict(m) for m in measurements],
            "environments": [to_dict(e) for e in environments],
            "edition": edition(kernel.problem_id),
        }
        self._lines.append([json.dumps(entry) + "\n"])
        self._keep(kernel, measurements, environments)

    def _keep(
        self, kernel: KernelSource, measurements: Sequence[Measurement], environments: Sequence[Environment]
    ) -> None:
        self.kernels[kernel.kernel_id] = kernel
        self.measurements[kernel.kernel_id] = list(measurements)
        self.environments |= {e.env_id: e for e in environments}

    def commit(self, *, clear: bool = True, stored: Mapping[str, Kernel] | None = None) -> int:
        """Put everything into the folder's corpus; returns the measurements added.

        Args:
            clear: whether the run is complete; an uncleared journal lets the next one do what is missing.
            stored: rows that the kernels have elsewhere, by id.
        """
        from kbench.loaders.corpus.writer import CorpusWriter

        stored_ids = _ids(self.folder, "measurements", "measurement_id")
        fresh = [m for group in self.measurements.values() for m in group if m.measurement_id not in stored_ids]
        places = _ids(self.folder, "environments", "env_id")
        old = stored or {}
        rows = [kernel_row(self.kernels[i], group, old.get(i)) for i, group in self.measurements.items() if group]
        if fresh:
            with CorpusWriter(self.folder) as writer:
                writer.append("measurements", fresh)
                writer.append("environments", [e for i, e in self.environments.items() if i not in places])
                fresh_kernels = {m.kernel_id for m in fresh}
                # A corpus says itself what its kernels compute.
                there = _ids(self.folder, "problems", "problem_id")
                names = sorted({kernel.problem_id for kernel in self.kernels.values()} - there)
                writer.append("problems", [problem(name).record() for name in names])
                writer.append("kernels", [row for row in rows if row.kernel_id in fresh_kernels])
        if clear:
            self.path.unlink()
        self.close()
        return len(fresh)

    def refuse_other_editions(self, problems: Collection[str]) -> None:
        """Refuse to go on where kernels were measured on another version of a user's problem.

        Raises:
            UserError: names the problem.
        """
        from pyarrow import compute

        where = compute.field("problem_id").isin(list(problems))
        stored = {row["problem_id"]: from_dict(Problem, row) for row in _rows(self.folder, "problems", where=where)}
        for name in problems:
            changed = name in stored and edition(name) and stored[name] != problem(name).record()
            if changed or self.editions.get(name, edition(name)) != edition(name):
                raise UserError(f"{self.folder} holds kernels of another version of {name!r}; give another --out")

    def close(self) -> None:
        """Close the file; what is in it stays."""
        if not self._closed:
            self._lines.close()
        self._closed = True


def _entry(text: str, where: str) -> Entry:
    plain = parse_json(text, where)
    try:
        measurements = [from_dict(Measurement, row) for row in plain["measurements"]]
        environments = [from_dict(Environment, e) for e in plain["environments"]]
        return KernelSource(**plain["kernel"]), measurements, environments, plain.get("edition", "")
    except (KeyError, TypeError) as error:
        raise DataError(f"{where} is not a finished kernel ({error}); the file is damaged: remove the line") from None


def in_corpus(folder: Path, kernels: Collection[str], gpus: Collection[str]) -> dict[str, list[Measurement]]:
    """Measurements of some kernels on some GPUs that a folder's corpus has already."""
    from pyarrow import compute

    field, groups = compute.field, dict[str, list[Measurement]]()
    where = field("kernel_id").isin(list(kernels)) & field("gpu").isin(list(gpus))
    for row in _rows(folder, "measurements", where=where):
        groups.setdefault(row["kernel_id"], []).append(from_dict(Measurement, row))
    return groups


def _ids(folder: Path, config: str, column: str) -> set[str]:
    return {row[column] for row in _rows(folder, config, columns=[column])}


def _rows(folder: Path, config: str, **chosen: Any) -> list[dict[str, Any]]:
    """Rows of a folder's corpus, if there is one."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.manifest import NAME as MANIFEST

    corpus = Corpus.open(folder) if (folder / MANIFEST).exists() else None
    if corpus is None or config not in corpus.configs:
        return []
    rows: list[dict[str, Any]] = corpus.table(config, **chosen).to_pylist()
    return rows


def kernel_row(kernel: KernelSource, measurements: Sequence[Measurement], stored: Kernel | None = None) -> Kernel:
    """A kernel's row: with new figures in the one it has elsewhere, or as one that no search made."""
    total = aggregate(measurements)
    if stored is not None:
        return dataclasses.replace(stored, **dataclasses.asdict(total))
    shape = structure_id(kernel.source)
    return Kernel(
        kernel_id=kernel.kernel_id,
        problem_id=kernel.problem_id,
        family=problem(kernel.problem_id).family,
        backend=kernel.backend,
        search_method="none",
        proposer="human",
        run_id="measure",
        step=0,
        parent_id=None,
        edit=None,
        structure_id=shape,
        cluster_id=shape,
        split="train",
        source=kernel.source,
        origin="kbench",
        license=None,
        **dataclasses.asdict(total),
    )
