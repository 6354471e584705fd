"""RunState: everything known of a run, its measured kernels included. A pure function of the log: see the reducer."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from kbench.generation.search.settings import NOTHING_SPENT, Charge, RunSettings
from kbench.harness.record import aggregate
from kbench.harness.timing.second_clock import SecondTimes, contradiction
from kbench.schemas import Measurement, Status


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadFigure:
    """One workload of a kernel, as shown to proposers."""

    workload: str
    status: str
    runtime_us: float | None
    speedup: float | None
    floor_us: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class KernelOutcome:
    """A kernel's verdict over all workloads, with the figures of each."""

    status: Status
    error: str | None
    runtime_us: float | None
    speedup: float | None
    workloads: tuple[WorkloadFigure, ...] = ()
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        return dataclasses.asdict(self) | {"status": self.status.value}


def outcome_from_json(data: Mapping[str, Any]) -> KernelOutcome:
    """Read an outcome back from the log."""
    figures = tuple(WorkloadFigure(**figure) for figure in data["workloads"])
    return KernelOutcome(**{**data, "status": Status(data["status"]), "workloads": figures})


def outcome_of(measurements: Sequence[Measurement]) -> KernelOutcome:
    """The outcome of a kernel's measurements."""
    verdict = aggregate(measurements)
    figures = tuple(
        WorkloadFigure(m.workload, m.status.value, m.runtime_us, m.speedup, m.floor_us) for m in measurements
    )
    return KernelOutcome(
        verdict.status, verdict.error, verdict.runtime_us, verdict.speedup, figures, verdict.registers,
        verdict.shared_bytes, verdict.spill_bytes,
    )  # fmt: skip


def refereed_outcome(outcome: KernelOutcome, seconds: SecondTimes) -> KernelOutcome:
    """A correct kernel's outcome after the profiler timed it: rejected where it does not confirm a time."""
    figures = [figure for figure in outcome.workloads if figure.runtime_us is not None]
    reasons = (contradiction(figure.runtime_us or 0.0, figure.workload, seconds) for figure in figures)
    why = next(filter(None, reasons), None)
    if why is None:
        return outcome
    untimed = tuple(
        dataclasses.replace(figure, status=Status.REJECTED.value, runtime_us=None, speedup=None)
        for figure in outcome.workloads
    )
    rejected = dataclasses.replace(outcome, status=Status.REJECTED, error=why, runtime_us=None, speedup=None)
    return dataclasses.replace(rejected, workloads=untimed)


def gpu_seconds(measurements: Sequence[Measurement]) -> float:
    """GPU time the measurements of one kernel took."""
    return math.fsum((m.verify_s or 0.0) + (m.time_s or 0.0) for m in measurements)


def build_seconds(measurements: Sequence[Measurement]) -> float:
    """Build time of one kernel: every workload's record repeats it, it is charged once."""
    return max((m.build_s or 0.0 for m in measurements), default=0.0)


IDEA = re.compile(r"\s*#\s*idea:[ \t]*(\S[^\n]*)", re.IGNORECASE)
"""The comment line in which an author says how the kernel gets its speed."""
LONGEST_IDEA = 300


def idea_of(source: str) -> str | None:
    """What a kernel's first line, a comment, says of it; None where its author stated no idea."""
    match = IDEA.match(source)
    return match[1].strip()[:LONGEST_IDEA] if match else None


class Operator(StrEnum):
    """How a candidate comes about."""

    FRESH = "fresh"
    MUTATE = "mutate"
    CROSS = "cross"
    REWRITE = "rewrite"
    LLM = "llm"
    REPAIR = "repair"


@dataclasses.dataclass(frozen=True, slots=True)
class ProposalRequest:
    """One slot of a step: an operator and the parents it works on."""

    operator: Operator
    parent_id: str | None = None
    other_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "operator", Operator(self.operator))  # methods of users write "mutate" too

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        return dataclasses.asdict(self) | {"operator": self.operator.value}


FRESH = ProposalRequest(Operator.FRESH)


@dataclasses.dataclass(frozen=True, slots=True)
class BestKnown:
    """The fastest kernel of a cell when a step began, in its author's words."""

    kernel_id: str
    speedup: float
    idea: str


@dataclasses.dataclass(frozen=True, slots=True)
class BestReference:
    """The fastest way to do a workload without a kernel of one's own: eager PyTorch, torch.compile or a library."""

    name: str
    runtime_us: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A candidate of the run: its text, where it came from and, once known, what became of it."""

    kernel_id: str
    source: str
    step: int
    slot: int
    parent_id: str | None
    other_id: str | None
    operator: Operator
    proposer: str
    edit: str | None
    recipe: Mapping[str, Any] | None
    niche: str
    outcome: KernelOutcome | None = None
    skipped: bool = False
    lost: str | None = None
    refereed: bool = False
    """Whether the profiler was asked about its times."""

    @property
    def reward(self) -> float | None:
        """Its speedup over the reference; None unless it was measured and is correct."""
        return self.outcome.speedup if self.outcome is not None else None

    @property
    def idea(self) -> str | None:
        """How it gets its speed, in its author's words."""
        return idea_of(self.source)

    @property
    def note(self) -> str | None:
        """What its author says of it in a line: what changed, or else how it gets its speed."""
        return self.edit or self.idea

    @property
    def settled(self) -> bool:
        """Nothing more will be measured of it."""
        return self.outcome is not None or self.skipped or self.lost is not None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunState:
    """A run as its log tells it. `requests` is empty between steps."""

    run_id: str
    settings: RunSettings
    nodes: Mapping[str, Node] = dataclasses.field(default_factory=dict)
    step: int = 0
    """The step in progress or, between steps, the next one."""
    requests: tuple[ProposalRequest, ...] = ()
    answered: frozenset[int] = frozenset()
    """Slots of this step that have a candidate or a failure."""
    open: tuple[str, ...] = ()
    """Candidates of this step, by slot."""
    best_known: BestKnown | None = None
    """The best kernel of the cell when this step began; None where no author stated an idea."""
    references: Mapping[str, BestReference] = dataclasses.field(default_factory=dict)
    """The best reference of each workload, where one had been timed when this step began."""
    outages: tuple[str, ...] = ()
    """Why slots of this step failed whose proposer could not be reached."""
    halted: str | None = None
    """Why the last step was abandoned; None once it is tried again."""
    filtered: bool = False
    """Whether the filter has decided on this step's candidates."""
    failed_forecasts: int = 0
    """Candidates the surrogate gave no forecast for."""
    forecast_failure: str | None = None
    """Why, for the first of them."""
    idle_steps: int = 0
    """Steps in a row that measured nothing new."""
    measured_in_step: int = 0
    entries: int = 0
    stopped: str | None = None
    charge: Charge = NOTHING_SPENT
    proposal_failures: Mapping[str, int] = dataclasses.field(default_factory=dict)
    last_at: str = ""
    finalists: tuple[str, ...] = ()
    """Kernels of the last finale, the fastest by its own measurement first."""
    winner: str | None = None
    """The fastest of them when they were measured against each other."""

    def __repr__(self) -> str:
        """One line: all texts of a run would fill a screen."""
        best = self.best()
        found = f"best {best.reward:.3f}x, {best.kernel_id}" if best else "none correct"
        return f"<{self.run_id}: {len(self.curve())} measured, {found}; {self.stopped or 'not ended'}>"

    def curve(self) -> list[float]:
        """The best speedup after each measured candidate, in the order proposed; 0 while none is correct."""
        measured = (node for node in self.nodes.values() if node.outcome is not None)
        return list(itertools.accumulate((node.reward or 0.0 for node in measured), max))

    def rewarded(self) -> list[Node]:
        """Correct candidates in the order proposed."""
        return [node for node in self.nodes.values() if node.reward is not None]

    def failed(self) -> list[Node]:
        """Measured candidates that are not correct, in the order proposed."""
        return [node for node in self.nodes.values() if node.outcome is not None and node.reward is None]

    def leader(self) -> Node | None:
        """The fastest correct candidate by its own measurement; the earliest of equals."""
        correct = self.rewarded()
        return max(correct, key=lambda node: node.reward or 0.0) if correct else None

    def best(self) -> Node | None:
        """The winner of the finale, as long as nothing that was not in it leads; before one, the leader."""
        leader = self.leader()
        if leader is None or self.winner is None or leader.kernel_id not in self.finalists:
            return leader
        return self.nodes[self.winner]

    def statuses(self) -> Counter[Status]:
        """Measured candidates by verdict."""
        return Counter(node.outcome.status for node in self.nodes.values() if node.outcome is not None)
