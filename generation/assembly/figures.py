"""Figures of logged kernels that lie outside the logs: in the published corpus, or in corpora measured later.

The logs stay as they are. `Samples` puts back what a log leaves out because a published corpus holds it. Corrections
take the place of logged figures known to be wrong, repeats stand beside them, figures of other GPUs become more rows.
Errata take the figures of kernels that were found wrong, on every GPU.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.generation.assembly.kernels import Gathered, Measured, check_trust, untimed
from kbench.generation.log import LogEntry
from kbench.harness.record import TIMED
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.storage.lines import read_records
from kbench.schemas import DataError, Environment, Measurement, Status, UserError, from_dict

SAMPLED = ("samples_us", "anchor_us", "rounds", "second_clock_us", "clocks_disagree", "max_abs_error", "max_rel_error")
"""What a row with a time says of how it came about."""


class Samples:
    """The kernels and measurements of a published corpus, to make thin logs whole again."""

    def __init__(self, corpus: Path | None) -> None:
        """Read them, its repeats included; None has none."""
        self._corpus = None if corpus is None else Corpus.open(corpus)
        self._hint = f"{str(corpus)!r} does not have it"
        if corpus is None:
            self._hint = "name the corpus that has it as `samples` in a recipe"
        samples = (*self._read("measurements"), *self._read("repeats"))
        self._rows = {row["measurement_id"]: row for row in samples}
        self._sources = {row["kernel_id"]: row["source"] for row in self._read("kernels", ["kernel_id", "source"])}
        events = self._read("events", ["run_id", "index", "payload_json"])
        self._payloads = {(row["run_id"], row["index"]): row["payload_json"] for row in events}

    def _read(self, name: str, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """Rows of the published corpus; none of a config it lacks."""
        if self._corpus is None or name not in self._corpus.configs:
            return []
        return self._corpus.table(name, columns=columns).to_pylist()

    def table(self, name: str, paths: Sequence[Path] = ()) -> list[Any]:
        """Rows of a table that logs may leave out: of these files, or else as the published corpus has them."""
        given = [row for path in paths for row in read_records(path, CONFIGS[name].record)]
        return given or [from_dict(CONFIGS[name].record, row) for row in self._read(name)]

    def entry(self, entry: LogEntry) -> LogEntry:
        """A log's entry with the payload or the text that was left out."""
        payload = entry.payload
        if not payload and (entry.run_id, entry.index) in self._payloads:
            payload = json.loads(self._payloads[entry.run_id, entry.index])
            if entry.kind == "candidate_proposed":
                # Of a kernel that was never measured there is no text.
                payload["source"] = self._sources.get(payload["kernel_id"], "")
        elif entry.kind == "candidate_proposed" and payload["source"] is None:
            kernel_id = payload["kernel_id"]
            if kernel_id not in self._sources:
                raise DataError(f"kernel {kernel_id} of run {entry.run_id!r} has no source; {self._hint}")
            payload = {**payload, "source": self._sources[kernel_id]}
        return dataclasses.replace(entry, payload=payload)

    def rows(self, rows: Iterable[Measurement]) -> tuple[Measurement, ...]:
        """Measurements with the samples that were left out: those with a time and nothing that it came from."""
        whole = []
        for row in rows:
            if row.runtime_us is not None and row.samples_us is None:
                if row.measurement_id not in self._rows:
                    raise DataError(
                        f"measurement {row.measurement_id} of kernel {row.kernel_id} has no samples; {self._hint}"
                    )
                row = from_dict(Measurement, self._rows[row.measurement_id])
            whole.append(row)
        return tuple(whole)

    def kernels(self, kernels: Iterable[Measured]) -> tuple[Measured, ...]:
        """Kernels whose measurements have them."""
        return tuple(dataclasses.replace(one, measurements=self.rows(one.measurements)) for one in kernels)


def repeated(corpora: Sequence[Path], kernel_ids: Collection[str]) -> tuple[list[Measurement], list[Environment]]:
    """Measurements of these kernels, and their environments."""
    rows: list[Measurement] = []
    environments: dict[str, Environment] = {}
    for path in corpora:
        corpus = Corpus.open(path)
        measured = [from_dict(Measurement, row) for row in corpus.table("measurements").to_pylist()]
        of_these = [row for row in measured if row.kernel_id in kernel_ids]
        if not of_these:
            raise UserError(f"{str(path)!r} repeats no kernel of these runs; name a corpus measured from theirs")
        rows += of_these
        for row in corpus.table("environments").to_pylist() if "environments" in corpus.configs else ():
            environments[row["env_id"]] = from_dict(Environment, row)
    used = {row.env_id for row in rows}
    return rows, [environment for key, environment in sorted(environments.items()) if key in used]


def corrected(gathered: Gathered, corpora: Sequence[Path]) -> tuple[Gathered, list[Environment]]:
    """What was gathered, with some kernels' measurements replaced, and the environments of the new ones.

    A kernel's figures are replaced all together: a mix would come from two ways of timing.
    """
    rows, environments = repeated(corpora, {one.node.kernel_id for one in gathered.kernels})
    by_kernel: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        by_kernel.setdefault(row.kernel_id, {})[row.workload] = row
    kernels = []
    for one in gathered.kernels:
        if fresh := by_kernel.get(one.node.kernel_id):
            other = next((row.gpu for row in fresh.values() if row.gpu != one.gpu), None)
            if other is not None:
                here = f"kernel {one.node.kernel_id}, which was measured on {one.gpu}"
                raise UserError(f"a figure of {other} cannot correct {here}")
            one = _with_figures(one, fresh, "was not corrected")
        kernels.append(one)
    return dataclasses.replace(gathered, kernels=tuple(kernels)), environments


def measured_elsewhere(
    corpora: Sequence[Path], kernels: Sequence[Measured]
) -> tuple[tuple[Measured, ...], list[Environment]]:
    """The same kernels with their figures on other GPUs, and the environments of these.

    Of a kernel that two corpora have on the same GPU, the first corpus's figures count.

    Raises:
        DataError: a figure was not made by plan.
        UserError: a corpus has none of the kernels, has them on a GPU of the logs, or lacks a workload of one.
    """
    rows, environments = repeated(corpora, {one.node.kernel_id for one in kernels})
    groups: dict[tuple[str, str], dict[str, Measurement]] = {}
    for row in rows:
        groups.setdefault((row.kernel_id, row.gpu), {}).setdefault(row.workload, row)
    logged = {(one.node.kernel_id, one.gpu) for one in kernels}
    by_id = {one.node.kernel_id: one for one in kernels}
    moved = []
    for (key, gpu), fresh in groups.items():
        if (key, gpu) in logged:
            raise UserError(f"kernel {key} was measured on {gpu} in the logs; figures made again are `repeats`")
        one = _with_figures(by_id[key], fresh, f"was not measured on {gpu}")
        if not untimed(one.measurements):
            moved.append(one)
    check_trust(moved)
    return tuple(moved), environments


def read_errata(paths: Sequence[Path], kernels: Iterable[Measured]) -> dict[str, str]:
    """What is wrong with some of the kernels, by their ids."""
    import yaml

    errata: dict[str, str] = {}
    for path in paths:
        try:
            table = yaml.safe_load(path.read_text("utf-8"))
        except (ValueError, yaml.YAMLError) as error:
            raise DataError(f"{path}: not YAML: {error}") from None
        if not isinstance(table, dict) or not all(isinstance(part, str) for item in table.items() for part in item):
            raise DataError(f"{path} must be a table of kernel ids, each with what is wrong with it")
        errata |= table
    stray = sorted(set(errata) - {one.node.kernel_id for one in kernels})
    if stray:
        raise UserError(f"errata: kernel {stray[0]} is in none of these runs; take it out")
    return errata


def refuted(kernels: Iterable[Measured], errata: Mapping[str, str]) -> tuple[Measured, ...]:
    """The kernels; those in the errata are incorrect and lose their times."""
    nothing: dict[str, Any] = {**dict.fromkeys((*TIMED, *SAMPLED)), "status": Status.INCORRECT}
    rows = []
    for one in kernels:
        if wrong := errata.get(one.node.kernel_id):
            without = [dataclasses.replace(row, **nothing, error=wrong) for row in one.measurements]
            one = dataclasses.replace(one, measurements=tuple(without))
        rows.append(one)
    return tuple(rows)


def _with_figures(one: Measured, fresh: Mapping[str, Measurement], lacking: str) -> Measured:
    """A kernel with other figures on the workloads it has in the logs, neither fewer nor more."""
    workloads = [row.workload for row in one.measurements]
    if set(workloads) != set(fresh):
        missing = ", ".join(sorted(set(workloads) ^ set(fresh)))
        raise UserError(f"kernel {one.node.kernel_id} {lacking} on the workloads it has in the logs: {missing}")
    return dataclasses.replace(one, measurements=tuple(fresh[workload] for workload in workloads))
