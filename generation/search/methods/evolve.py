"""Evolution: one population under strong selection; operators are used as often as they pay in this run.

Genomes breed by tournament, as below. A language model evolves texts: kbench.generation.search.methods.lineages.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kbench.generation.search.methods import lineages
from kbench.generation.search.methods.method import Method
from kbench.generation.search.methods.operators import LLM, chances
from kbench.generation.search.state import FRESH, Node, Operator, ProposalRequest, RunState

TOURNAMENT = 32
"""Kernels drawn for each parent; the best of them breeds. Tuned on recorded training problems."""


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Children of tournament winners, by operators drawn by what they gained so far."""
    if state.settings.proposer == LLM:
        return lineages.plan(state, count, rng)
    members = state.rewarded()
    if not members:
        return (FRESH,) * count
    weights = chances(state)
    drawn = rng.choices(list(weights), list(weights.values()), k=count)
    return tuple(_child(operator, members, rng) for operator in drawn)


def _child(operator: Operator, members: Sequence[Node], rng: random.Random) -> ProposalRequest:
    if operator is Operator.FRESH:
        return FRESH
    parent = _winner(members, rng)
    if operator is not Operator.CROSS:
        return ProposalRequest(operator, parent.kernel_id)
    mates = [node for node in members if node is not parent and _family(node) == _family(parent)]
    if not mates:
        return ProposalRequest(Operator.MUTATE, parent.kernel_id)
    return ProposalRequest(Operator.CROSS, parent.kernel_id, _winner(mates, rng).kernel_id)


def _winner(members: Sequence[Node], rng: random.Random) -> Node:
    return max(rng.sample(members, min(TOURNAMENT, len(members))), key=lambda node: node.reward or 0.0)


def _family(node: Node) -> object:
    """What two kernels must share to be crossed; texts without a genome may all be."""
    return node.recipe.get("family") if node.recipe else None


METHOD = Method("evolve", plan)
