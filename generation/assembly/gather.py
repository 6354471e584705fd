"""Gathering: every measured kernel of a set of run logs, with its lineage checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.generation.log import LogEntry, by_run, read_environments, read_log
from kbench.generation.search.methods.catalogue import WRITTEN, WRITTEN_PREFIX
from kbench.generation.search.reducer import replay
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import Node, RunState
from kbench.harness.record import refereed
from kbench.loaders.source.normalise import normalised
from kbench.loaders.source.strip import read
from kbench.loaders.source.structure import structure_id
from kbench.loaders.storage.pool import spread
from kbench.schemas import DataError, Environment, Event, Measurement, Status, Trust, from_dict
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
            found_rows = list(_measured(state, entries))
            check_trust(found_rows)
            rows.extend(found_rows)
            for entry in entries:
                payload = {name: value for name, value in entry.payload.items() if name not in LONG_FIELDS}
                if entry.kind == "kernel_measured":
                    payload["measurement_ids"] = [row["measurement_id"] for row in entry.payload["measurements"]]
                events.append(entry.event(payload))
        environments |= {one.env_id: one for one in read_environments(folder)}
    report(f"texts of {len(rows):,} kernels")
    texts = text_facts(row.node.source for row in rows)
    kernels, stand_ins = distinct(rows, texts)
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


def distinct(rows: Sequence[Measured], texts: Mapping[str, TextFacts]) -> tuple[tuple[Measured, ...], dict[str, str]]:
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
    distinct = list(dict.fromkeys(sources))
    if len(distinct) < FEW:
        return {source: facts_of(source) for source in distinct}
    return dict(zip(distinct, spread(facts_of, distinct, chunk=32), strict=True))
