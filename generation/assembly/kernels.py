"""Kernels of run logs: every measured one with its lineage checked, and its row of the dataset, with figures over all
workloads, cluster and split.

Kernels that searches proposed and nobody has measured become a corpus of their own, without figures.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from kbench.benchmark.problems.registry import listed, problem
from kbench.generation.log import LogEntry, by_run, read_environments, read_log
from kbench.generation.search.methods.catalogue import WRITTEN, WRITTEN_PREFIX
from kbench.generation.search.reducer import replay
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import Node, RunState
from kbench.harness.record import TIMED, Aggregate, aggregate, refereed
from kbench.harness.timing.rounds import Z95
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import is_corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.strip import read
from kbench.loaders.source.structure import structure_id
from kbench.loaders.splits import cluster_id, with_splits
from kbench.loaders.storage.pool import spread
from kbench.schemas import (
    DataError,
    Environment,
    Event,
    Kernel,
    Measurement,
    ReferenceTime,
    Status,
    Trust,
    UserError,
    from_dict,
)
from kbench.schemas.ids import content_hash

LONG_FIELDS = ("source", "measurements")
"""Payload fields that other tables hold; events carry the ids."""
FEW = 200
"""Texts below which starting processes costs more than it saves."""


@dataclasses.dataclass(frozen=True, slots=True)
class TextFacts:
    """Two identities of a source text, and how questions show it."""

    stripped: str
    """Hash of the text without comments."""
    structure: str
    """Hash of its shape."""
    normalised: str


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """One measured kernel with the run it came from."""

    run_id: str
    settings: RunSettings
    node: Node
    measurements: tuple[Measurement, ...]
    ancestors: tuple[Node, ...] = ()
    """From its parent to the seed of its line."""

    @property
    def gpu(self) -> str:
        """Where it was measured."""
        return self.measurements[0].gpu

    @property
    def seed(self) -> Mapping[str, Any]:
        """What the proposer recorded of the first kernel of its line."""
        return (self.ancestors[-1] if self.ancestors else self.node).recipe or {}

    @property
    def search_method(self) -> str:
        """What chose to propose it, as the corpus names it.

        The line decides, not the run: a kernel from a file was written, and what varied it started from written ones.
        Older logs name the method alone.
        """
        method = self.settings.search_method
        if "file" not in self.seed:
            return method
        return WRITTEN_PREFIX + method.removeprefix(WRITTEN_PREFIX) if self.ancestors else WRITTEN.name

    @property
    def lineage(self) -> str | None:
        """The template family of its line."""
        return self.seed.get("family")

    @property
    def model(self) -> str | None:
        """The language model that wrote it."""
        return (self.node.recipe or {}).get("model")


@dataclasses.dataclass(frozen=True, slots=True)
class Gathered:
    """Everything the logs hold."""

    kernels: tuple[Measured, ...]
    """Distinct kernels in log order; of kernels equal up to comments, the first."""
    stand_ins: Mapping[str, str]
    """Ids of dropped twins, with the id that stayed."""
    environments: tuple[Environment, ...]
    events: tuple[Event, ...]
    states: tuple[RunState, ...]
    texts: Mapping[str, TextFacts]
    """The identities of every source text."""


def gather(
    folders: Sequence[Path],
    whole: Callable[[LogEntry], LogEntry] = lambda entry: entry,
    report: Callable[[str], None] = lambda text: None,
) -> Gathered:
    """Read run folders."""
    states: dict[str, RunState] = {}
    rows: list[Measured] = []
    events: list[Event] = []
    environments: dict[str, Environment] = {}
    for number, folder in enumerate(folders, 1):
        report(f"log {number} of {len(folders)}: {folder}")
        for run_id, entries in by_run(map(whole, read_log(folder))).items():
            if run_id in states:
                raise DataError(f"run {run_id!r} is in {str(folder)!r} and in an earlier folder; give each run once")
            state = replay(entries)
            assert state is not None
            check_lineage(state)
            states[run_id] = state
            measured = list(_measured(state, entries))
            check_trust(measured)
            rows.extend(measured)
            for entry in entries:
                payload = {name: value for name, value in entry.payload.items() if name not in LONG_FIELDS}
                if entry.kind == "kernel_measured":
                    payload["measurement_ids"] = [row["measurement_id"] for row in entry.payload["measurements"]]
                events.append(entry.event(payload))
        environments |= {one.env_id: one for one in read_environments(folder)}
    report(f"texts of {len(rows):,} kernels")
    texts = text_facts(row.node.source for row in rows)
    kernels, stand_ins = distinct_kernels(rows, texts)
    sorted_environments = tuple(environments[key] for key in sorted(environments))
    return Gathered(kernels, stand_ins, sorted_environments, tuple(events), tuple(states.values()), texts)


def check_lineage(state: RunState) -> None:
    """Refuse a run whose candidates have parents it never had."""
    for node in state.nodes.values():
        for parent in (node.parent_id, node.other_id):
            if parent is not None and parent not in state.nodes:
                raise DataError(f"run {state.run_id!r}: kernel {node.kernel_id} has the unknown parent {parent}")


def check_trust(rows: Sequence[Measured]) -> None:
    """Refuse figures of kernels whose host code ran on a GPU beside its judge: a dataset takes plans alone."""
    for row in rows:
        if any(m.trust is Trust.PROCESS and not m.gpu.startswith("cpu") for m in row.measurements):
            raise DataError(
                f"run {row.run_id!r}: kernel {row.node.kernel_id} was measured with trust 'process'; measure it by plan"
            )


def untimed(rows: Iterable[Measurement]) -> bool:
    """Whether a kernel is correct but was never timed with its launch hidden, so that its speed is unknown."""
    return any(row.status is Status.OK and row.runtime_us is None for row in rows)


def _measured(state: RunState, entries: Sequence[LogEntry]) -> Iterator[Measured]:
    refereed_payloads = (entry.payload for entry in entries if entry.kind == "kernel_refereed")
    seconds = {payload["kernel_id"]: payload["error"] or payload["second_clock_us"] for payload in refereed_payloads}
    for entry in entries:
        if entry.kind == "kernel_measured":
            where = f"run {entry.run_id!r} entry {entry.index}"
            rows = tuple(from_dict(Measurement, row, where) for row in entry.payload["measurements"])
            if entry.payload["kernel_id"] in seconds:
                rows = tuple(refereed(rows, seconds[entry.payload["kernel_id"]]))
            if untimed(rows):
                continue
            node = state.nodes[entry.payload["kernel_id"]]
            yield Measured(state.run_id, state.settings, node, rows, tuple(ancestors(state, node)))


def ancestors(state: RunState, node: Node) -> Iterator[Node]:
    """A candidate's parent, its parent's parent and so on, to the seed."""
    while node.parent_id is not None:
        node = state.nodes[node.parent_id]
        yield node


def distinct_kernels(
    rows: Sequence[Measured], texts: Mapping[str, TextFacts]
) -> tuple[tuple[Measured, ...], dict[str, str]]:
    """Kernels that differ in more than comments, and which of them stands for each other one."""
    first: dict[tuple[str, str, str, str], Measured] = {}
    stand_ins: dict[str, str] = {}
    for row in rows:
        settings = row.settings
        key = (settings.problem_id, settings.backend.value, texts[row.node.source].stripped, row.gpu)
        kept = first.setdefault(key, row)
        if kept.node.kernel_id != row.node.kernel_id:
            stand_ins[row.node.kernel_id] = kept.node.kernel_id
    return tuple(first.values()), stand_ins


def facts_of(source: str) -> TextFacts:
    """The identities of one text, and its regular layout."""
    # `read` keeps its last answer, so that the text is parsed once for all three.
    return TextFacts(content_hash(read(source).stripped), structure_id(source), normalised(source))


def text_facts(sources: Iterable[str]) -> Mapping[str, TextFacts]:
    """The identities of many texts, by text; parsing is the slow part of assembly, so processes share it."""
    unique = list(dict.fromkeys(sources))
    if len(unique) < FEW:
        return {source: facts_of(source) for source in unique}
    return dict(zip(unique, spread(facts_of, unique, chunk=32), strict=True))


MACHINE_SIGMA = 0.006
"""Standard deviation of a kernel's log time, and of its log speedup, between machines with the same GPU model
(docs/results/repeatability.md). A measurement's interval knows its own machine alone; a kernel's row speaks of them
all."""
ORIGIN = "kbench"
LICENSE = "CC-BY-4.0"


def kernel_rows(gathered: Gathered) -> list[Kernel]:
    """One row for every distinct kernel and GPU, clusters and splits assigned, intervals for any machine."""
    rows = []
    for one in gathered.kernels:
        parent = gathered.stand_ins.get(one.node.parent_id, one.node.parent_id) if one.node.parent_id else None
        if parent == one.node.kernel_id:
            # The edit touched comments alone and the parent was dropped as its twin.
            parent = None
        figures = dataclasses.asdict(aggregate(one.measurements))
        rows.append(kernel_row(one, gathered.texts[one.node.source], parent, figures))
    once = {row.kernel_id: row for row in reversed(rows)}
    splits = {row.kernel_id: row.split for row in with_splits(list(once.values())[::-1])}
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
