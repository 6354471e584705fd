"""Hill climbing: change the best kernel of the current climb; after some steps without gain, start afresh."""

from __future__ import annotations

import random
from collections.abc import Sequence

from kbench.generation.search.methods.method import Method, derivation
from kbench.generation.search.state import FRESH, Node, ProposalRequest, RunState


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Neighbours of the current climb's best; fresh candidates when the climb is over or never began."""
    first = climb_start(state)
    climb = [node for node in state.rewarded() if node.step >= first]
    if not climb or stalled(climb, state.step, state.settings.patience):
        return (FRESH,) * count
    best = max(climb, key=lambda node: node.reward or 0.0)
    return tuple(ProposalRequest(derivation(state, rng), best.kernel_id) for _ in range(count))


def climb_start(state: RunState) -> int:
    """The step the current climb began at: the last one whose candidates all have no parent."""
    fresh: dict[int, bool] = {}
    for node in state.nodes.values():
        fresh[node.step] = fresh.get(node.step, True) and node.parent_id is None
    return max((step for step, all_fresh in fresh.items() if all_fresh), default=0)


def stalled(climb: Sequence[Node], step: int, patience: int) -> bool:
    """Whether the best of the climb is `patience` steps old."""
    best = max(climb, key=lambda node: (node.reward or 0.0, -node.step))
    return step - 1 - best.step >= patience


METHOD = Method("hill_climb", plan)
