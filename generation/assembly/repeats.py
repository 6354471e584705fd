"""Kernels measured or judged again, read from corpora of measurements and files of verdicts.

Repeats stand beside the logged figures; corrections take the place of figures and verdicts known to be wrong. The logs
stay as they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from kbench.generation.assembly.gather import Gathered, Measured
from kbench.loaders.storage.lines import parse_json, read_lines
from kbench.schemas import DataError, Environment, Measurement, Status, UserError, from_dict, to_dict
from kbench.schemas.status import KERNEL_STATUSES

OF_ANY_VERDICT = (
    "measurement_id", "kernel_id", "problem_id", "gpu", "workload", "env_id", "floor_us", "compile_ms", "registers",
    "shared_bytes", "spill_bytes", "cubin_sha", "build_s", "verify_s", "time_s", "started_at",
)  # fmt: skip
"""Fields of a measurement that hold whatever its kernel's verdict: what was built, where, and what it cost."""

VERDICT = ("kernel_id", "workload", "status", "error", "evidence")
"""Fields of a line in a file of verdicts."""


def repeated(corpora: Sequence[Path], kernel_ids: Collection[str]) -> tuple[list[Measurement], list[Environment]]:
    """Measurements of these kernels, and their environments.

    Raises:
        UserError: a corpus has no measurement of any of the kernels.
    """
    from kbench.loaders.corpus.corpus import Corpus

    rows: list[Measurement] = []
    places: dict[str, Environment] = {}
    for path in corpora:
        corpus = Corpus.open(path)
        measured = [from_dict(Measurement, row) for row in corpus.table("measurements").to_pylist()]
        fresh = [row for row in measured if row.kernel_id in kernel_ids]
        if not fresh:
            raise UserError(f"{str(path)!r} repeats no kernel of these runs; name a corpus measured from theirs")
        rows += fresh
        for row in corpus.table("environments").to_pylist():
            place = from_dict(Environment, row)
            places[place.env_id] = place
    used = {row.env_id for row in rows}
    return rows, [place for key, place in sorted(places.items()) if key in used]


def corrected(gathered: Gathered, corrections: Sequence[Path]) -> tuple[Gathered, list[Environment]]:
    """What was gathered, with some kernels' measurements replaced, and the environments of the new ones.

    Args:
        gathered: what the logs hold.
        corrections: corpora of measurements, then files of verdicts (.jsonl), which overrule them.

    Raises:
        DataError: a verdict is damaged.
        UserError: one corrects none of the kernels, or lacks a workload of one, or has another GPU's figures.
    """
    corpora = [path for path in corrections if path.suffix != ".jsonl"]
    rows, places = repeated(corpora, {one.node.kernel_id for one in gathered.kernels})
    found: dict[str, dict[str, Measurement]] = {}
    for row in rows:
        found.setdefault(row.kernel_id, {})[row.workload] = row
    kernels = tuple(_replaced(one, found[one.node.kernel_id]) if one.node.kernel_id in found else one
                    for one in gathered.kernels)  # fmt: skip
    for path in corrections:
        kernels = relabelled(kernels, path) if path.suffix == ".jsonl" else kernels
    return dataclasses.replace(gathered, kernels=kernels), places


def relabelled(kernels: Sequence[Measured], path: Path) -> tuple[Measured, ...]:
    """Kernels with the verdicts of a file; on workloads that it does not name they keep their own.

    A line has `kernel_id`, `workload`, `status`, `error`, and `evidence` for the reader.

    Raises:
        DataError: a line lacks one of these, or its status says nothing of a kernel or is ok.
        UserError: the file names none of the kernels.
    """
    verdicts = {(line["kernel_id"], line["workload"]): line for line, _ in read_lines(path, _parse_verdict)}
    if not {key for key, _ in verdicts} & {one.node.kernel_id for one in kernels}:
        raise UserError(f"{str(path)!r} relabels no kernel of these runs; name a file made from theirs")

    def judged(row: Measurement) -> Measurement:
        verdict = verdicts.get((row.kernel_id, row.workload))
        return _refuted(row, verdict) if verdict else row

    return tuple(dataclasses.replace(one, measurements=tuple(map(judged, one.measurements))) for one in kernels)


def _parse_verdict(text: str, where: str) -> dict[str, Any]:
    line = parse_json(text, where)
    if not isinstance(line, dict) or not all(line.get(key) for key in VERDICT):
        raise DataError(f"{where} is no verdict: it needs {', '.join(VERDICT)}")
    if line["status"] not in KERNEL_STATUSES or line["status"] == Status.OK:
        raise DataError(f"{where} has the status {line['status']!r}; it must be a failure of the kernel")
    return line


def _refuted(row: Measurement, verdict: dict[str, Any]) -> Measurement:
    """A measurement whose kernel failed: without figures, which an incorrect kernel does not have."""
    kept = {name: value if name in OF_ANY_VERDICT else None for name, value in to_dict(row).items()}
    return from_dict(Measurement, kept | {"status": verdict["status"], "error": verdict["error"]})


def _replaced(one: Measured, fresh: dict[str, Measurement]) -> Measured:
    """A kernel with all its figures replaced: a mix would come from two ways of timing."""
    logged = {row.workload: row for row in one.measurements}
    if logged.keys() != fresh.keys():
        missing = ", ".join(sorted(logged.keys() ^ fresh.keys()))
        raise UserError(f"kernel {one.node.kernel_id} was not corrected on the workloads it has in the logs: {missing}")
    for workload, row in fresh.items():
        if row.gpu != logged[workload].gpu:
            here = f"kernel {row.kernel_id}, which was measured on {logged[workload].gpu}"
            raise UserError(f"a figure of {row.gpu} cannot correct {here}")
    return dataclasses.replace(one, measurements=tuple(fresh[workload] for workload in logged))
