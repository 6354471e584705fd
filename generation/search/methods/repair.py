"""Repair: some requests of a plan go to failed kernels instead, for proposers that can read what went wrong."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter

from kbench.generation.search.methods import evolve, hill_climb, puct
from kbench.generation.search.settings import RunSettings
from kbench.generation.search.state import Node, Operator, ProposalRequest, RunState

PROPOSERS = frozenset({"llm"})
"""Proposers that are shown an error text and can act on it."""
METHODS = frozenset({hill_climb.METHOD.name, evolve.METHOD.name, puct.METHOD.name})
"""Methods that have parents; `random` stays the baseline without any."""
FEW_CORRECT = 4
"""With at least so many correct kernels a run repairs no others."""
SHARE = 0.25
"""Chance of each request to become a repair while correct kernels are few."""
SHARE_WITHOUT_CORRECT = 0.5
"""The same while there is none."""
MOST_REPAIRS = 2
"""How often one failed kernel is asked to be repaired."""


def learns(settings: RunSettings) -> bool:
    """Whether a run's author is told of earlier kernels."""
    return settings.proposer in PROPOSERS and settings.method in METHODS


def with_repairs(
    state: RunState, requests: tuple[ProposalRequest, ...], rng: random.Random
) -> tuple[ProposalRequest, ...]:
    """The plan with some requests replaced by repairs of failed kernels, those repaired least often first."""
    if not learns(state.settings):
        return requests
    correct = len(state.rewarded())
    restarts = correct > 0 and all(request.operator is Operator.FRESH for request in requests)
    if correct >= FEW_CORRECT or restarts:
        return requests
    share = SHARE if correct else SHARE_WITHOUT_CORRECT
    tried = Counter(node.parent_id for node in state.nodes.values() if node.parent_id is not None)
    planned = []
    for request in requests:
        broken = _choose(state, tried, rng) if rng.random() < share else None
        if broken is not None:
            tried[broken.kernel_id] += 1
            request = dataclasses.replace(request, operator=Operator.REPAIR, parent_id=broken.kernel_id, other_id=None)
        planned.append(request)
    return tuple(planned)


def _choose(state: RunState, tried: Counter[str], rng: random.Random) -> Node | None:
    candidates = [node for node in state.failed() if tried[node.kernel_id] < MOST_REPAIRS]
    if not candidates:
        return None
    least = min(tried[node.kernel_id] for node in candidates)
    return rng.choice([node for node in candidates if tried[node.kernel_id] == least])
