"""Kernel rows: gathered kernels with their figures over all workloads, their cluster and their split."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import geometric_mean
from typing import Any

from kbench.benchmark.problems.registry import problem
from kbench.generation.assembly.gather import Gathered, Measured, TextFacts
from kbench.harness.record import TIMED, aggregate
from kbench.harness.timing.rounds import Z95
from kbench.loaders.splits import cluster_id
from kbench.loaders.splits.lineage import split_kernels
from kbench.schemas import Kernel, Measurement, ReferenceTime

MACHINE_SIGMA = 0.006
"""Standard deviation of a kernel's log time, and of its log speedup, between machines with the same GPU model
(docs/results/repeatability.md). A measurement's interval knows its own machine alone; a kernel's row speaks of them
all."""
ORIGIN = "kbench"
LICENSE = "CC-BY-4.0"


def kernel_rows(gathered: Gathered) -> list[Kernel]:
    """One row for every distinct kernel and GPU, clusters and splits assigned, intervals for any machine."""
    rows = [_row(measured, gathered) for measured in gathered.kernels]
    once = {row.kernel_id: row for row in reversed(rows)}
    splits = {row.kernel_id: row.split for row in split_kernels(list(once.values())[::-1])}
    return [between_machines(dataclasses.replace(row, split=splits[row.kernel_id])) for row in rows]


def rows_elsewhere(moved: Sequence[Measured], kernels: Sequence[Kernel]) -> list[Kernel]:
    """Rows of kernels on other GPUs: all but the figures is what the logs' own rows say, the split included."""
    by_id = {kernel.kernel_id: kernel for kernel in kernels}
    return [
        between_machines(
            dataclasses.replace(by_id[one.node.kernel_id], **dataclasses.asdict(aggregate(one.measurements)))
        )
        for one in moved
    ]


def against_best(
    rows: Sequence[Kernel], measurements: Iterable[Measurement], references: Iterable[ReferenceTime]
) -> list[Kernel]:
    """Rows with their speedup over the best reference, where every workload of theirs has reference times.

    The eager reference was timed in the same rounds as the kernel: its share of the machine's drift cancels.
    """
    timed = {(row.problem_id, row.workload, row.gpu): row for row in references}
    ratios: dict[tuple[str, str], list[tuple[bool, float] | None]] = {}
    for one in measurements:
        reference = timed.get((one.problem_id, one.workload, one.gpu))
        ratio = (
            (reference.launch_bound, one.speedup * reference.best[1] / reference.reference_us)
            if reference is not None and one.speedup is not None
            else None
        )
        ratios.setdefault((one.kernel_id, one.gpu), []).append(ratio)
    best = {key: _over_best(values) for key, values in ratios.items()}
    return [dataclasses.replace(row, speedup_best=best.get((row.kernel_id, row.gpu or ""))) for row in rows]


def _over_best(ratios: Sequence[tuple[bool, float] | None]) -> float | None:
    known = [one for one in ratios if one is not None]
    if len(known) < len(ratios):
        return None
    return geometric_mean([ratio for bound, ratio in known if not bound] or [ratio for _, ratio in known])


def between_machines(row: Kernel) -> Kernel:
    """A kernel's row with intervals that allow for the spread between machines."""
    ends: dict[str, Any] = {}
    for value, low, high in (TIMED[:3], TIMED[3:]):
        figure, below, above = (getattr(row, name) for name in (value, low, high))
        if figure and below and above:
            ends |= {low: figure / widened(figure / below), high: figure * widened(above / figure)}
    return dataclasses.replace(row, **ends)


def widened(ratio: float) -> float:
    """One end of a 95 % interval over its middle, with the spread between machines added in quadrature."""
    return math.exp(math.hypot(math.log(ratio), Z95 * MACHINE_SIGMA))


def _row(measured: Measured, gathered: Gathered) -> Kernel:
    node = measured.node
    parent = gathered.stand_ins.get(node.parent_id, node.parent_id) if node.parent_id else None
    if parent == node.kernel_id:
        # The edit touched comments alone and the parent was dropped as its twin.
        parent = None
    figures = dataclasses.asdict(aggregate(measured.measurements))
    return kernel_row(measured, gathered.texts[node.source], parent, figures)


def kernel_row(measured: Measured, text: TextFacts, parent: str | None, figures: Mapping[str, Any]) -> Kernel:
    """A kernel's row, its split not assigned yet.

    Args:
        measured: the kernel and its run.
        text: what its source says.
        parent: the kernel it was derived from, as the table has it.
        figures: what was measured of it.
    """
    node, settings = measured.node, measured.settings
    return Kernel(
        kernel_id=node.kernel_id, problem_id=settings.problem_id, family=problem(settings.problem_id).family,
        backend=settings.backend, search_method=measured.search_method, proposer=node.proposer,
        run_id=measured.run_id, step=node.step, parent_id=parent, edit=node.edit if parent else None,
        structure_id=text.structure, cluster_id=cluster_id(text.structure), split="train", source=node.source,
        normalised=text.normalised, origin=ORIGIN, license=LICENSE, lineage=measured.lineage, model=measured.model,
        generation=len(measured.ancestors), **figures,
    )  # fmt: skip


def orphans(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The rows whose parent is missing from the table: none, when lineage is complete."""
    ids = {kernel.kernel_id for kernel in kernels}
    return [kernel for kernel in kernels if kernel.parent_id is not None and kernel.parent_id not in ids]
