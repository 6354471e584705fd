"""Evolution: one population under strong selection; operators are used as often as they pay in this run.

Genomes breed by tournament. A language model reads what was tried before it and evolves texts (`plan_texts`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from kbench.generation.search.methods.method import LLM, Method, chances
from kbench.generation.search.proposal import read_text, similarity
from kbench.generation.search.state import FRESH, Node, Operator, ProposalRequest, RunState

TOURNAMENT = 32
"""Kernels drawn for each parent; the best of them breeds. Tuned on recorded training problems."""
GREED = 6.0
"""A kernel with 0.9 of the best speed is changed half as often as the best one, with 0.7 a tenth as often."""
ARCHIVE = 8
"""Structures kept alive."""
ARCHIVE_SHARE = 0.2
"""How often a parent is any kernel of the archive, whatever its speed."""
DIFFERENT = 0.3
"""Structural distance from which two kernels are two ideas. Small edits of a text are nearer than 0.2."""


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Children of tournament winners, by operators drawn by what they gained so far."""
    if state.settings.proposer == LLM:
        return plan_texts(state, count, rng)
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


def plan_texts(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Changes, crossings and fresh kernels of texts, drawn by how often each has paid in this run.

    A kernel is chosen to be changed by its speed and by how few children it has, so that a good child soon replaces
    its parent and lineages grow long.
    """
    members = state.rewarded()
    if not members:
        return (FRESH,) * count
    kept = archive(members)
    children = Counter(node.parent_id for node in state.nodes.values())
    weights = {one: chance for one, chance in chances(state).items() if one is not Operator.REPAIR}
    requests = []
    for operator in rng.choices(list(weights), list(weights.values()), k=count):
        request = FRESH if operator is Operator.FRESH else _text_child(operator, members, kept, children, rng)
        children[request.parent_id] += 1
        requests.append(request)
    return tuple(requests)


def _text_child(
    operator: Operator, members: Sequence[Node], kept: Sequence[Node], children: Counter[str | None], rng: random.Random
) -> ProposalRequest:
    best = max(node.reward or 0.0 for node in members)
    if rng.random() < ARCHIVE_SHARE:
        candidates, greed = kept, 0.0
    else:
        candidates, greed = members, GREED
    weights = [((node.reward or 0.0) / best) ** greed / (1 + children[node.kernel_id]) for node in candidates]
    parent = rng.choices(candidates, weights)[0]
    if operator is Operator.CROSS:
        apart = {node.kernel_id: distance(parent, node) for node in kept}
        mates = [node for node in kept if apart[node.kernel_id] >= DIFFERENT]
        if mates:
            fitness = [apart[node.kernel_id] * (node.reward or 0.0) / best for node in mates]
            return ProposalRequest(operator, parent.kernel_id, rng.choices(mates, fitness)[0].kernel_id)
    return ProposalRequest(Operator.MUTATE, parent.kernel_id)


def archive(members: Sequence[Node]) -> list[Node]:
    """The fastest kernel, then the fastest that is different from all before it, and so on.

    Kernels that are slower and different stay alive as parents and as second ideas for a crossing.
    """
    kept: list[Node] = []
    for node in sorted(members, key=lambda node: -(node.reward or 0.0)):
        if len(kept) < ARCHIVE and all(distance(node, other) >= DIFFERENT for other in kept):
            kept.append(node)
    return kept


def distance(one: Node, other: Node) -> float:
    """How different two kernels are, from 0 to 1: the share of runs of five tokens, numbers masked, not in both."""
    return 1.0 - similarity(read_text(one.source), read_text(other.source))


METHOD = Method("evolve", plan)
