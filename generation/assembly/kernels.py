"""Kernel rows: gathered kernels with their figures over all workloads, their cluster and their split.

Kernels that searches proposed and nobody has measured become a corpus of their own, without figures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from kbench.benchmark.problems.registry import listed, problem
from kbench.generation.assembly.gather import Gathered, Measured, TextFacts, ancestors, check_lineage, text_facts
from kbench.generation.log import by_run, read_log
from kbench.generation.search.reducer import replay
from kbench.generation.search.settings import RunSettings
from kbench.harness.record import TIMED, Aggregate, aggregate
from kbench.harness.timing.rounds import Z95
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.splits.lineage import split_kernels
from kbench.loaders.splits.problems import cluster_id
from kbench.schemas import Kernel, Measurement, ReferenceTime, UserError

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
        ratio = None
        if reference is not None and one.speedup is not None:
            ratio = reference.launch_bound, one.speedup * reference.best[1] / reference.reference_us
        ratios.setdefault((one.kernel_id, one.gpu), []).append(ratio)
    best: dict[tuple[str, str], float] = {}
    for key, values in ratios.items():
        timed_ratios = [value for value in values if value is not None]
        if len(timed_ratios) == len(values):
            best[key] = geometric_mean([r for bound, r in timed_ratios if not bound] or [r for _, r in timed_ratios])
    return [dataclasses.replace(row, speedup_best=best.get((row.kernel_id, row.gpu or ""))) for row in rows]


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
    """A kernel's row, its split not assigned yet."""
    node, settings = measured.node, measured.settings
    return Kernel(
        kernel_id=node.kernel_id, problem_id=settings.problem_id, family=problem(settings.problem_id).family,
        backend=settings.backend, search_method=measured.search_method, proposer=node.proposer,
        run_id=measured.run_id, step=node.step, parent_id=parent, edit=node.edit if parent else None,
        structure_id=text.structure, cluster_id=cluster_id(text.structure), split="train", source=node.source,
        normalised=text.normalised, origin=ORIGIN, license=LICENSE, lineage=measured.lineage, model=measured.model,
        generation=len(measured.ancestors), **figures,
    )  # fmt: skip


def write_unmeasured(runs: Sequence[Path], out: Path) -> int:
    """Write a corpus of the kernels that searches proposed and nobody has measured; how many there are."""
    from kbench.loaders.corpus.corpus import Corpus
    from kbench.loaders.corpus.writer import CorpusWriter

    if is_corpus(out) and set(Corpus.open(out).configs) - {"kernels", "problems"}:
        raise UserError(f"--out {str(out)!r} is a corpus with measurements, which would be lost; choose another")
    rows = unmeasured_rows(runs)
    if not rows:
        raise UserError(f"no kernel in {', '.join(map(str, runs))} waits to be measured; propose some: kbench generate")
    with CorpusWriter(out) as writer:
        writer.replace("kernels", rows)
        writer.replace("problems", [listed(problem).record() for problem in sorted({row.problem_id for row in rows})])
    return len(rows)


def unmeasured_rows(folders: Sequence[Path]) -> list[Kernel]:
    """Kernels that wait to be measured; of kernels equal up to comments the first, and none that a run has measured.

    Raises:
        DataError: a log is damaged, or a candidate's parent is unknown.
    """
    runs = (run for folder in folders for run in by_run(read_log(folder)).values())
    states = [state for run in runs if (state := replay(run))]
    for state in states:
        check_lineage(state)
    waiting = [
        Measured(state.run_id, state.settings, node, (), tuple(ancestors(state, node)))
        for state in states
        for node in state.nodes.values()
        if not node.settled
    ]
    measured = [(s.settings, node.source) for s in states for node in s.nodes.values() if node.outcome is not None]
    texts = text_facts([*(one.node.source for one in waiting), *(source for _, source in measured)])

    def text_of(settings: RunSettings, source: str) -> tuple[str, str, str]:
        return settings.problem_id, settings.backend.value, texts[source].stripped

    seen = {text_of(settings, source) for settings, source in measured}
    figures = dict.fromkeys(field.name for field in dataclasses.fields(Aggregate))
    rows: list[Kernel] = []
    for one in waiting:
        text = text_of(one.settings, one.node.source)
        if text not in seen:
            seen.add(text)
            rows.append(kernel_row(one, texts[one.node.source], one.node.parent_id, figures))
    return rows
