"""Campaign: many searches at once over one executor, so that the GPU never waits for a proposer.

Every search works in steps; while one waits for its measurements, the others propose. By default those that have taken
the fewest steps go first, problem by problem: budgets spread evenly and kernels of a problem are measured together.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from kbench.benchmark.llm.batch import Unanswered
from kbench.generation.campaign.closing import RESERVED, close_runs
from kbench.generation.executors.executor import Executor, Result
from kbench.generation.log import Clock, LogEntry, utc_now
from kbench.generation.search.action import filters
from kbench.generation.search.guide import Guide, guide_named
from kbench.generation.search.proposal import Proposer
from kbench.generation.search.search import Search
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import KernelOutcome, Node, RunState, gpu_seconds
from kbench.schemas import Backend, KernelSource, ReferenceTime
from kbench.schemas.ids import content_hash

LONGEST_REASON = 120
"""Characters of a reason shown in a line."""


@dataclasses.dataclass(frozen=True, slots=True)
class Totals:
    """What searches have done in all, by their logs."""

    searches: int
    measured: int
    best: float | None
    """Highest speedup that stands."""
    ends: Mapping[str, int]
    """Why searches ended, with how many did; with several searches, without amounts."""

    @classmethod
    def of(cls, states: Sequence[RunState]) -> Totals:
        """That of these searches."""
        bests = [best.reward for state in states if (best := state.best()) and best.reward]
        reasons = [state.stopped or "not ended (the same command goes on)" for state in states]
        ends = dict(Counter(reasons if len(states) == 1 else (reason.split(":")[0] for reason in reasons)))
        return cls(len(states), sum(state.charge.measurements for state in states), max(bests, default=None), ends)

    def __str__(self) -> str:
        them = "the search" if self.searches == 1 else f"the {self.searches} searches"
        ends = ", ".join(end if self.searches == 1 else f"{end}: {count}" for end, count in self.ends.items())
        best = f"{self.best:.2f}x" if self.best else "-"
        return f"{them} in all: {counted(self.measured, 'kernel')}, best {best}; {ends}"


@dataclasses.dataclass(slots=True)
class CampaignProgress:
    """What has happened since the campaign was started or resumed."""

    total: int = 0
    """Measurements all runs together may still make; 0 where no budget counts them."""
    measured: int = 0
    ok: int = 0
    lost: int = 0
    unmeasured: int | None = None
    """Kernels that are proposed and wait for a command that measures; None where this one does."""
    reused: int = 0
    in_flight: int = 0
    live: int = 0
    gpu_seconds: float = 0.0
    best: float = 0.0
    """Highest speedup measured."""
    failures: Counter[str] = dataclasses.field(default_factory=Counter)
    """Incorrect or failed kernels, by status."""
    failed_forecasts: int = 0
    """Candidates a surrogate gave no forecast for."""
    forecast_failure: str | None = None
    """Why, for the first of them."""
    halted: dict[str, str] = dataclasses.field(default_factory=dict)
    """Runs that could not go on because their proposer could not be reached, with the reason."""
    waiting: int = 0
    """Runs that wait for responses of a language model."""
    totals: Totals | None = None
    """What these searches have done in all, earlier commands included; None until this one ends."""
    replies_without_kernel: int = 0
    """Replies of a language model that gave no kernel."""
    no_kernel: str | None = None
    """Why, for the first of them."""
    spent_before: str | None = None
    """The budget that a search had spent before this command changed it to that."""
    unknown_responses: list[str] = dataclasses.field(default_factory=list)
    """Ids of responses to no request of these searches, which answer nothing."""
    started: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def rate(self) -> float:
        """Kernels measured per second."""
        return self.measured / max(1e-9, time.monotonic() - self.started)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "measured": self.measured, "ok": self.ok, "best_speedup": self.best or None,
            "failures": dict(self.failures), "reused": self.reused, "lost": self.lost, "unmeasured": self.unmeasured,
            "failed_forecasts": self.failed_forecasts, "forecast_failure": self.forecast_failure,
            "replies_without_kernel": self.replies_without_kernel, "no_kernel": self.no_kernel,
            "spent_before": self.spent_before, "unknown_responses": self.unknown_responses,
            "halted": self.halted, "waiting": self.waiting,
            "gpu_seconds": self.gpu_seconds, "kernels_per_s": self.rate,
            "in_all": dataclasses.asdict(self.totals) if self.totals else None,
        }  # fmt: skip

    def line(self) -> str:
        """One line while the campaign runs, with what is still to come."""
        count = f"{self.measured}/{self.total}" if self.total else f"{self.measured}"
        to_come = [f"{counted(self.live, 'run')} live", f"{self.in_flight} in flight"]
        if self.waiting:
            to_come.append(f"{self.waiting} wait for responses")
        if self.measured and self.total:
            to_come.append(f"{max(0, self.total - self.measured) / self.rate:.0f} s left")
        return ", ".join([f"{count} kernels", *self._figures(), *to_come, *self._remarks()])

    def result(self) -> str:
        """One line when the campaign has ended."""
        if self.unmeasured is not None:
            return ", ".join([self.counted(), *self._remarks()])
        figures = self._figures() if self.measured or self.reused or self.lost else []
        here = ", ".join([f"this command: {counted(self.measured, 'kernel')}", *figures])
        return ", ".join([f"{here}; {self.totals}" if self.totals else here, *self._remarks()])

    def unknown_text(self) -> str:
        """How many responses answer nothing, in words."""
        one = len(self.unknown_responses) == 1
        return (
            f"{counted(len(self.unknown_responses), 'response')} {'has a' if one else 'have'} custom_id"
            f"{'' if one else 's'} of no request: {self.unknown_responses[0]}{'' if one else ', …'}"
        )

    def counted(self) -> str:
        """What became of the kernels, in words."""
        if self.unmeasured is None:
            return f"{counted(self.measured, 'kernel')} {'was' if self.measured == 1 else 'were'} measured"
        next_step = " (kbench data assemble RUN --unmeasured --out CORPUS collects them)" if self.unmeasured else ""
        return f"{counted(self.unmeasured, 'kernel')} proposed, not measured{next_step}"

    def no_kernel_text(self) -> list[str]:
        """How many replies gave no kernel and why the first did not, in words; nothing where all did."""
        if not self.replies_without_kernel:
            return []
        why = " ".join((self.no_kernel or "").split())[:LONGEST_REASON]
        return [f"{counted(self.replies_without_kernel, 'reply', 'replies')} gave no kernel, the first: {why}"]

    def _figures(self) -> list[str]:
        failed = ", ".join(f"{name} {count}" for name, count in self.failures.most_common()) or "none"
        return [
            f"{self.rate:.1f}/s",
            f"best {self.best:.2f}x" if self.best else "best -",
            f"ok {self.ok / self.measured:.0%}" if self.measured else "ok -",
            f"failed: {failed}",
            f"reused {self.reused}",
            f"lost {self.lost}",
        ]

    def _remarks(self) -> list[str]:
        remarks = [failed_forecasts(self.failed_forecasts, self.forecast_failure)] if self.failed_forecasts else []
        remarks += self.no_kernel_text()
        if self.spent_before:
            remarks.append(f"the budget was spent before this command: {self.spent_before}")
        return [*remarks, *([self.unknown_text()] if self.unknown_responses else [])]


def counted(count: int, name: str, plural: str | None = None) -> str:
    """A count with what is counted, such as `1 kernel` or `2 kernels`."""
    return f"{count} {name if count == 1 else plural or name + 's'}"


def failed_forecasts(count: int, first: str | None) -> str:
    """How many forecasts failed and why the first did, short enough for a line."""
    return f"{count} forecasts failed, the first: {' '.join((first or 'no reason given').split())[:LONGEST_REASON]}"


AHEAD = 384
"""Kernels kept in flight: enough that builds run ahead of the GPU on every core."""
ATTEMPTS = 3
"""How often a kernel is tried when the machine, not the kernel, fails."""
POLL_S = 0.2
ROUNDS = "rounds"
"""The usual order: all searches advance evenly."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Drive:
    """How runs are driven."""

    executor: Executor
    deadline_s: float | None = None
    clock: Clock = utc_now
    proposer_for: Callable[[RunSettings], Proposer] | None = None
    """Overrides the proposer a run's settings name."""
    surrogate_for: Callable[[str], Guide] = guide_named
    report: Callable[[CampaignProgress], None] = lambda progress: None
    """Called over and over while they run."""
    write_every_s: float = 0.25
    """Entries wait at most this long for their fsync: one costs as much for a hundred lines as for one."""
    order: str = ROUNDS
    references: Sequence[ReferenceTime] = ()
    """Reference times that a language model is told of where none lie in the run folder."""
    measure: bool = True
    """Otherwise searches go on without measuring: kernels wait for a later command."""


class Campaign:
    """Drives searches over an executor and writes their common log."""

    def __init__(self, how: Drive, write: Callable[[Sequence[LogEntry]], None]) -> None:
        self._how, self._executor, self._write_entries = how, how.executor, write
        self._most_in_flight = AHEAD if how.measure else sys.maxsize
        began, time_s = time.monotonic(), math.inf if how.deadline_s is None else how.deadline_s
        self._deadline, self._search_until = began + time_s, began + (1.0 - RESERVED) * time_s
        self._order = ORDERS[how.order]
        self._outcomes: dict[Shared, tuple[KernelOutcome, str]] = {}
        self._proposed: set[Shared] = set()
        self._cells: defaultdict[tuple[str, Backend, str], list[Search]] = defaultdict(list)
        self._waiting: dict[str, list[Search]] = {}
        self._outstanding: Counter[str] = Counter()
        """Kernels that each run waits for."""
        self._kernels: dict[str, KernelSource] = {}
        self._attempts: defaultdict[str, int] = defaultdict(int)
        self._searches: list[Search] = []
        self._written = 0.0
        self.progress = CampaignProgress()
        self.unanswered: dict[str, Unanswered] = {}
        """What each search waits for."""

    def add(self, search: Search) -> None:
        """Add a search; what its log already knows serves its siblings."""
        self._searches.append(search)
        self._cells[_cell(search.settings)].append(search)
        self.remember([search.state])

    def remember(self, states: Iterable[RunState]) -> None:
        """Take over what these runs measured, so that runs of one label measure nothing twice."""
        for state in states:
            label = state.settings.label
            # What the filter passes over may be proposed again, so what it has not decided on yet is not taken.
            undecided = state.open if filters(state) and not state.filtered else ()
            for node in state.nodes.values():
                if not node.skipped and node.kernel_id not in undecided:
                    self._proposed.add((label, node.kernel_id))
                if node.outcome is not None:
                    self._outcomes.setdefault((label, node.kernel_id), (node.outcome, state.run_id))

    def seen(self, label: str, key: str) -> bool:
        """Whether any run of this label has proposed this kernel."""
        return (label, key) in self._proposed

    def siblings(self, settings: RunSettings) -> Iterable[Node]:
        """Measured candidates of the other runs of a cell with the same label."""
        for other in self._cells[_cell(settings)]:
            if other.settings is not settings:
                yield from (node for node in other.state.nodes.values() if node.outcome is not None)

    def run(self) -> CampaignProgress:
        """Drive all searches until they end, halt or wait for responses, or the deadline comes near; then close them.

        The log is consistent at every moment.
        """
        ready = [search for search in self._searches if not search.done]
        states = [search.state for search in ready]
        self.progress.total = sum(state.settings.budget.measurements_left(state.charge) or 0 for state in states)
        try:
            while (ready or (self._outstanding and self._how.measure)) and time.monotonic() < self._search_until:
                ready = self._feed(ready)
                for result in self._executor.collect(POLL_S if self._waiting else 0.0):
                    ready.extend(self._settle(result))
                self._write(every_s=self._how.write_every_s)
                # Without measuring, searches that wait for it have nothing more to do here.
                self.progress.live = len(ready) + (len(self._outstanding) if self._how.measure else 0)
                self.progress.in_flight = len(self._waiting)
                if self.progress.live:
                    self._how.report(self.progress)
            if self._how.measure:
                close_runs(self._searches, self._executor, lambda: time.monotonic() >= self._deadline)
            else:
                self.progress.unmeasured = len(self._waiting)
        finally:
            self._write()
        self.progress.totals = Totals.of([search.state for search in self._searches])
        return self.progress

    def _feed(self, ready: list[Search]) -> list[Search]:
        """Advance searches, least advanced first, until enough is in flight; returns those still ready."""
        ready.sort(key=self._order, reverse=True)
        kernels: list[KernelSource] = []
        while ready and len(self._waiting) < self._most_in_flight and time.monotonic() < self._search_until:
            search = ready.pop()
            kernels.extend(self._queue(search, self._advance(search)))
            if not search.done and search.state.run_id not in self._outstanding:
                ready.insert(0, search)  # everything it asked for was known: it goes on in a later round
        if self._how.measure:
            self._executor.submit(kernels)
        return ready

    def _advance(self, search: Search) -> Sequence[KernelSource]:
        progress, failed = self.progress, search.state.failed_forecasts
        kernels = search.advance()
        if search.state.failed_forecasts > failed:
            progress.failed_forecasts += search.state.failed_forecasts - failed
            progress.forecast_failure = progress.forecast_failure or search.state.forecast_failure
        if search.halted is not None:
            progress.halted[search.state.run_id] = search.halted
        if search.waiting is not None:
            self.unanswered[search.state.run_id] = search.waiting
            progress.waiting = len(self.unanswered)
        return kernels

    def _queue(self, search: Search, kernels: Sequence[KernelSource]) -> list[KernelSource]:
        """Note who waits for which kernel; returns those that must be measured."""
        fresh: list[KernelSource] = []
        for kernel in kernels:
            key = kernel.kernel_id
            shared = (search.settings.label, key)
            self._proposed.add(shared)
            if shared in self._outcomes:
                search.reuse(key, *self._outcomes[shared])
                self.progress.reused += 1
                continue
            if key not in self._waiting:
                self._waiting[key] = []
                self._kernels[key] = kernel
                fresh.append(kernel)
            self._waiting[key].append(search)
            self._outstanding[search.state.run_id] += 1
        return fresh

    def _settle(self, result: Result) -> list[Search]:
        """Give a result to the searches that wait for it; returns those that may go on.

        The first search of each label is charged for it, the others reuse it.
        """
        key = result.kernel_id
        if result.lost is not None and not result.final:
            self._attempts[key] += 1
            if self._attempts[key] < ATTEMPTS:
                self._executor.submit([self._kernels[key]])
                return []
        del self._kernels[key]
        waiting = self._waiting.pop(key)
        for search in waiting:
            shared = (search.settings.label, key)
            if shared in self._outcomes:
                search.reuse(key, *self._outcomes[shared])
                continue
            search.receive(result)
            outcome = search.state.nodes[key].outcome
            if outcome is not None:
                self._outcomes[shared] = (outcome, search.state.run_id)
                self._count(outcome)
        self.progress.lost += result.lost is not None
        self.progress.gpu_seconds += gpu_seconds(result.measurements)
        ready = []
        for search in waiting:
            self._outstanding[search.state.run_id] -= 1
            if not self._outstanding[search.state.run_id]:
                del self._outstanding[search.state.run_id]
                ready.append(search)
        return ready

    def _count(self, outcome: KernelOutcome) -> None:
        progress = self.progress
        progress.measured += 1
        if outcome.speedup is None:
            progress.failures[outcome.status.value] += 1
        else:
            progress.ok += 1
            progress.best = max(progress.best, outcome.speedup)

    def _write(self, every_s: float = 0.0) -> None:
        now = time.monotonic()
        if now - self._written < every_s:
            return
        self._written = now
        entries = [entry for search in self._searches for entry in search.take_entries()]
        for entry in entries:
            if entry.kind == "proposal_failed" and "model" in (entry.payload.get("recipe") or {}):
                self.progress.replies_without_kernel += 1
                self.progress.no_kernel = self.progress.no_kernel or entry.payload["reason"]
        self._write_entries(entries)


Shared = tuple[str, str]
"""A label and a kernel: searches of one label share what they measure, those of different labels nothing."""


def _cell(settings: RunSettings) -> tuple[str, Backend, str]:
    return settings.problem_id, settings.backend, settings.label


Turn = tuple[int, str, int, str, str]


def _by_round(search: Search) -> Turn:
    """Least advanced first: a deadline leaves every budget equally spent."""
    settings = search.settings
    return (search.state.step, _place(settings.problem_id), 0, settings.backend.value, search.state.run_id)


def _by_problem(search: Search) -> Turn:
    """Seeds of all first, then problem after problem: the device changes inputs less often."""
    settings, step = search.settings, search.state.step
    return (min(step, 1), _place(settings.problem_id), step, settings.backend.value, search.state.run_id)


@functools.cache
def _place(problem_id: str) -> str:
    """A problem's place in the order: not by name, since problems of similar names compile similarly long, and a
    stretch of slow ones would leave the GPU waiting.
    """
    return content_hash(problem_id)


ORDERS: Mapping[str, Callable[[Search], Turn]] = {ROUNDS: _by_round, "problems": _by_problem}
"""The order in which ready searches advance."""
