"""Kernels of the logs measured on other GPUs, read from the corpora that `kbench measure --corpus … --out` writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kbench.generation.assembly.gather import Measured, check_trust, untimed
from kbench.generation.assembly.kernels import between_machines
from kbench.generation.assembly.repeats import repeated
from kbench.harness.record import aggregate
from kbench.schemas import Environment, Kernel, Measurement, UserError


def measured_elsewhere(
    corpora: Sequence[Path], kernels: Sequence[Measured]
) -> tuple[list[Measured], list[Environment]]:
    """The same kernels with their figures on other GPUs, and the environments of these.

    Of a kernel that two corpora have on the same GPU, the first corpus's figures count.

    Raises:
        DataError: a figure was not made by plan.
        UserError: a corpus has none of the kernels, has them on a GPU of the logs, or lacks a workload of one.
    """
    rows, places = repeated(corpora, {one.node.kernel_id for one in kernels})
    groups: dict[tuple[str, str], dict[str, Measurement]] = {}
    for row in rows:
        groups.setdefault((row.kernel_id, row.gpu), {}).setdefault(row.workload, row)
    found = list(_moved(groups, kernels))
    check_trust(found)
    return found, places


def _moved(
    groups: Mapping[tuple[str, str], Mapping[str, Measurement]], kernels: Sequence[Measured]
) -> Iterator[Measured]:
    logged = {(one.node.kernel_id, one.gpu) for one in kernels}
    known = {one.node.kernel_id: one for one in kernels}
    for (key, gpu), fresh in groups.items():
        if (key, gpu) in logged:
            raise UserError(f"kernel {key} was measured on {gpu} in the logs; figures made again belong to --repeats")
        workloads = [row.workload for row in known[key].measurements]
        if set(workloads) != set(fresh):
            missing = ", ".join(sorted(set(workloads) ^ set(fresh)))
            raise UserError(f"kernel {key} was not measured on {gpu} on the workloads it has in the logs: {missing}")
        if not untimed(fresh.values()):
            yield dataclasses.replace(known[key], measurements=tuple(fresh[workload] for workload in workloads))


def rows_elsewhere(found: Sequence[Measured], kernels: Sequence[Kernel]) -> list[Kernel]:
    """Rows of kernels on other GPUs: all but the figures is what the logs' own rows say, the split included."""
    known = {kernel.kernel_id: kernel for kernel in kernels}
    return [
        between_machines(
            dataclasses.replace(known[one.node.kernel_id], **dataclasses.asdict(aggregate(one.measurements)))
        )
        for one in found
    ]
