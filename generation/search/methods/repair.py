"""Repair: some requests of a plan go to failed kernels instead, for proposers that can read what went wrong."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

from kbench.generation.search.methods import evolve, hill_climb, puct
from kbench.generation.search.methods.operators import LLM, chances
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import FRESH, Node, Operator, ProposalRequest, RunState

METHODS = frozenset({hill_climb.METHOD.name, evolve.METHOD.name, puct.METHOD.name})
"""Methods that have parents; `random` stays the baseline without any."""
SHARE_WITHOUT_CORRECT = 0.5
"""Chance of each request to become a repair while no kernel is correct; later it is that of the operator."""
MOST_REPAIRS = 2
"""How often one failed kernel is asked to be repaired."""


def learns(settings: RunSettings) -> bool:
    """Whether a run's author is told of earlier kernels."""
    return settings.proposer == LLM and settings.method in METHODS


def with_repairs(
    state: RunState, requests: tuple[ProposalRequest, ...], rng: random.Random
) -> tuple[ProposalRequest, ...]:
    """The plan with some requests replaced by repairs of failed kernels."""
    if not learns(state.settings):
        return requests
    correct = bool(state.rewarded())
    restarts = state.settings.method == hill_climb.METHOD.name and FRESH in requests
    if correct and restarts:
        return requests
    share = chances(state)[Operator.REPAIR] if correct else SHARE_WITHOUT_CORRECT
    tried = Counter(node.parent_id for node in state.nodes.values() if node.parent_id is not None)
    planned = []
    for request in requests:
        broken = _choose(state, tried) if rng.random() < share else None
        if broken is not None:
            tried[broken.kernel_id] += 1
            request = dataclasses.replace(request, operator=Operator.REPAIR, parent_id=broken.kernel_id, other_id=None)
        planned.append(request)
    return tuple(planned)


def _choose(state: RunState, tried: Counter[str], /) -> Node | None:
    """The failed kernel whose idea promises most: repaired least often, then of the fastest parent, then the newest.

    One whose repair was correct needs no other.
    """
    repaired = {node.parent_id for node in state.rewarded()}
    broken = [
        node for node in state.failed() if tried[node.kernel_id] < MOST_REPAIRS and node.kernel_id not in repaired
    ]

    def promise(node: Node) -> tuple[int, float, int]:
        parent = state.nodes.get(node.parent_id or "")
        return -tried[node.kernel_id], (parent.reward or 0.0) if parent else 0.0, node.step

    return max(broken, key=promise, default=None)
