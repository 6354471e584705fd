"""Hill climbing: change the best kernel of the current climb; after some steps without gain, start afresh."""

from __future__ import annotations

import random

from kbench.generation.search.methods.method import Method, derivation
from kbench.generation.search.state import FRESH, ProposalRequest, RunState


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Neighbours of the current climb's best; fresh candidates when the climb is over or never began."""
    fresh: dict[int, bool] = {}
    for node in state.nodes.values():
        fresh[node.step] = fresh.get(node.step, True) and node.parent_id is None
    # The climb began at the last step whose candidates all have no parent.
    first = max((step for step, all_fresh in fresh.items() if all_fresh), default=0)
    climb = [node for node in state.rewarded() if node.step >= first]
    # Of equals the earliest counts: the climb has stalled since then.
    best = max(climb, key=lambda node: (node.reward or 0.0, -node.step), default=None)
    if best is None or state.step - 1 - best.step >= state.settings.patience:
        return (FRESH,) * count
    return tuple(ProposalRequest(derivation(state, rng), best.kernel_id) for _ in range(count))


METHOD = Method("hill_climb", plan)
