"""Closing: what runs need once they search no more: the profiler's word on what is correct, and a finale for each.

A search picks the largest of many noisy figures, so its winner is partly luck; and a kernel that could forge its time
would win. So every correct kernel is timed by the profiler too, many in one process, and the few candidates that noise
could have kept behind the leader are measured against it in the same rounds. The log says what came of both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from statistics import geometric_mean
from typing import TYPE_CHECKING, Any

from kbench.generation.executors.executor import Executor
from kbench.generation.search.search import Search
from kbench.generation.search.state import Node, RunState

if TYPE_CHECKING:
    from kbench.harness.commands.compare import Comparison

FINALISTS, NOISE = 4, 0.03
"""Most candidates of a finale, and how far behind the leader one may be: 95 % of repeated measurements of a kernel lie
within 1 to 3 % of each other (docs/results/clock.md)."""
TOGETHER = 256
"""Kernels that the profiler is asked about at a time."""
RESERVED = 0.15
"""Share of a deadline that is left for closing."""


def close_runs(searches: Sequence[Search], executor: Executor, late: Callable[[], bool]) -> None:
    """Have correct kernels timed by the profiler, and hold finales; what time does not suffice for waits."""
    due_kernels = {
        node.kernel_id: search.kernel(node)
        for search in searches
        for node in search.state.rewarded()
        if not node.refereed
    }
    for start in range(0, len(due_kernels), TOGETHER):
        if late():
            return
        kernels = list(due_kernels.values())[start : start + TOGETHER]
        seconds = dict(executor.second_clock(kernels))
        doubted = {key for search in searches for key in search.contradicted(seconds)}
        if doubted:
            # The device may have been cold: what is said twice counts.
            seconds |= executor.second_clock([kernel for kernel in kernels if kernel.kernel_id in doubted])
        for search in searches:
            search.referee(seconds)
    # Runs on one problem together: its inputs are made once.
    due = sorted((one for one in searches if finale_due(one.state)), key=lambda one: one.settings.problem_id)
    if late() or not due:
        return
    pairs = []
    for search in due:
        first, *rest = map(search.kernel, finalists(search.state))
        pairs += [(first, other) for other in rest]
    comparisons = iter(executor.compare(pairs))
    for search in due:
        leader, *others = finalists(search.state)
        duels = [Duel(other, next(comparisons, [])) for other in others]
        if all(duel.workloads for duel in duels):
            search.hold_finale([leader, *others], winner(leader, duels), [duel.to_json() for duel in duels])


def finalists(state: RunState) -> list[Node]:
    """The leader and those that noise could have kept behind it, the fastest first."""
    ranked = sorted(state.rewarded(), key=lambda node: node.reward or 0.0, reverse=True)[:FINALISTS]
    return [node for node in ranked if (node.reward or 0.0) >= (1.0 - NOISE) * (ranked[0].reward or 0.0)]


def finale_due(state: RunState) -> bool:
    """Whether a run that has ended has several finalists and none of its finales decided between them."""
    leader = state.leader()
    ended = state.stopped is not None and leader is not None and leader.kernel_id not in state.finalists
    return ended and len(finalists(state)) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class Duel:
    """A finalist against the leader, workload by workload."""

    node: Node
    workloads: Sequence[Comparison]

    @property
    def ratio(self) -> float | None:
        """Time of the leader over its own, over all workloads; None where one could not be compared."""
        ratios = [one.ratio for one in self.workloads if one.ratio is not None]
        return geometric_mean(ratios) if ratios and len(ratios) == len(self.workloads) else None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        workloads = [one.to_dict() for one in self.workloads]
        return {"kernel_id": self.node.kernel_id, "ratio": self.ratio, "workloads": workloads}


def winner(leader: Node, duels: Sequence[Duel]) -> Node:
    """The finalist that is fastest beside the leader, or the leader."""
    fastest = max(duels, key=lambda duel: duel.ratio or 0.0)
    return fastest.node if (fastest.ratio or 0.0) > 1.0 else leader
