"""Island evolution: populations that breed apart, exchange their best now and then, and share a diversity archive.

Everything is derived from the state: an island's population is the children placed on it plus the migrants of every
migration so far; the archive keeps the best kernel of each niche (a family with its structural genes).
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from kbench.generation.search.state import Node, Operator, ProposalRequest, RunState

POPULATION = 12
"""Members of an island that may breed: its best ones."""
TOURNAMENT = 3
CROSS_SHARE = 0.4
ARCHIVE_SHARE = 0.2
"""How often a parent comes from the archive, which keeps slow but different kernels alive."""
FRESH_SHARE = 0.1


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Children spread evenly over the islands."""
    islands = [population(state, island) for island in range(state.settings.islands)]
    archive = diversity_archive(state)
    return tuple(_child(slot % len(islands), islands, archive, rng) for slot in range(count))


def _child(island: int, islands: Sequence[list[Node]], archive: list[Node], rng: random.Random) -> ProposalRequest:
    members = islands[island] or archive
    if not members or rng.random() < FRESH_SHARE:
        return ProposalRequest(Operator.FRESH, island=island)
    parent = _choose(members, archive, rng)
    if len(members) > 1 and rng.random() < CROSS_SHARE:
        other = _choose(members, archive, rng)
        if other.kernel_id != parent.kernel_id:
            return ProposalRequest(Operator.CROSS, parent.kernel_id, other.kernel_id, island)
    return ProposalRequest(Operator.MUTATE, parent.kernel_id, island=island)


def _choose(members: list[Node], archive: list[Node], rng: random.Random) -> Node:
    if archive and rng.random() < ARCHIVE_SHARE:
        return rng.choice(archive)
    entrants = rng.sample(members, min(TOURNAMENT, len(members)))
    return max(entrants, key=_reward)


def _reward(node: Node) -> float:
    return node.reward or 0.0


def population(state: RunState, island: int) -> list[Node]:
    """The island's best members, its own children and migrants together."""
    settings = state.settings
    rewarded = state.rewarded()
    members = {node.kernel_id: node for node in rewarded if _home(node, settings.islands) == island}
    neighbour = (island - 1) % settings.islands
    for step in range(settings.migrate_every, state.step + 1, settings.migrate_every):
        there = [n for n in rewarded if n.step < step and _home(n, settings.islands) == neighbour]
        if there:
            migrant = max(there, key=_reward)
            members[migrant.kernel_id] = migrant
    return sorted(members.values(), key=_reward, reverse=True)[:POPULATION]


def _home(node: Node, islands: int) -> int:
    # Seeds are planned before islands exist: they are dealt out by slot.
    return node.slot % islands if node.step == 0 else node.island


def diversity_archive(state: RunState) -> list[Node]:
    """The best kernel of every niche, niches in order of appearance."""
    best: dict[str, Node] = {}
    for node in state.rewarded():
        held = best.get(node.niche)
        if held is None or _reward(node) > _reward(held):
            best[node.niche] = node
    return list(best.values())
