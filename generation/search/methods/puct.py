"""PUCT: a tree of kernels; expand those whose subtree promises most, weighed against how often they were tried.

    score = Q + c * scale * P * sqrt(1 + T) / (1 + n)

Q is the best reward among a node's children once it was expanded and its own reward before; P is rank-linear in the
own reward (rank over the sum of ranks); scale is the range of rewards over kernels that are not seeds; n counts the
expansions of the node and of its descendants; T counts all expansions. Once a node is chosen in a step, its ancestors
and descendants are blocked for the rest of that step, so that one lineage cannot take all parents.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence

from kbench.generation.search.methods.method import Method, derivation
from kbench.generation.search.state import FRESH, Node, ProposalRequest, RunState


@dataclasses.dataclass(frozen=True, slots=True)
class Branch:
    """What PUCT looks at in a node."""

    key: str
    reward: float
    best_child: float | None
    """Best reward among its children; None without a correct one."""
    visits: int


def scores(branches: Sequence[Branch], total_visits: int, c: float, scale: float) -> dict[str, float]:
    """The PUCT score of every branch."""
    ranks = {one.key: rank for rank, one in enumerate(sorted(branches, key=lambda one: one.reward), 1)}
    rank_sum = len(branches) * (len(branches) + 1) / 2
    return {
        one.key: _value(one) + c * scale * ranks[one.key] / rank_sum * math.sqrt(1 + total_visits) / (1 + one.visits)
        for one in branches
    }


def _value(one: Branch) -> float:
    return one.best_child if one.visits and one.best_child is not None else one.reward


def reward_scale(nodes: Sequence[Node]) -> float:
    """Range of rewards of kernels that are not seeds; of all of them while there are too few others."""
    rewards = [n.reward for n in nodes if n.step > 0 and n.reward is not None]
    if len(rewards) < 2:
        rewards = [n.reward for n in nodes if n.reward is not None]
    return max(rewards) - min(rewards) if rewards else 0.0


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Expand the best-scored parents, `count` children shared among them."""
    parents = choose_parents(state)
    if not parents:
        return (FRESH,) * count
    return tuple(ProposalRequest(derivation(state, rng), parents[slot % len(parents)]) for slot in range(count))


def choose_parents(state: RunState) -> list[str]:
    """Up to `settings.parents` node ids by score, no two of the same lineage."""
    nodes = state.rewarded()
    visits, total = expansions(state)
    children: dict[str, float] = {}
    for node in nodes:
        if node.parent_id is not None:
            children[node.parent_id] = max(children.get(node.parent_id, 0.0), node.reward or 0.0)
    branches = [
        Branch(n.kernel_id, n.reward or 0.0, children.get(n.kernel_id), visits.get(n.kernel_id, 0)) for n in nodes
    ]
    scored = scores(branches, total, state.settings.exploration, reward_scale(nodes))
    order = sorted(branches, key=lambda one: scored[one.key], reverse=True)
    chosen: list[str] = []
    for one in order:
        if len(chosen) == state.settings.parents:
            break
        if not any(related(state.nodes, one.key, other) for other in chosen):
            chosen.append(one.key)
    return chosen


def expansions(state: RunState) -> tuple[dict[str, int], int]:
    """How often each node or a descendant of it was expanded, and all expansions. One step expands a parent once."""
    visits: dict[str, int] = {}
    expanded = {(n.step, n.parent_id) for n in state.nodes.values() if n.parent_id in state.nodes}
    for _, parent in expanded:
        for ancestor in lineage(state.nodes, parent):
            visits[ancestor] = visits.get(ancestor, 0) + 1
    return visits, len(expanded)


def lineage(nodes: Mapping[str, Node], key: str | None) -> list[str]:
    """The node and its ancestors, youngest first."""
    ancestors: list[str] = []
    while key is not None and key in nodes and key not in ancestors:
        ancestors.append(key)
        key = nodes[key].parent_id
    return ancestors


def related(nodes: Mapping[str, Node], one: str, other: str) -> bool:
    """Whether one is the other or its ancestor, in either direction."""
    return one in lineage(nodes, other) or other in lineage(nodes, one)


METHOD = Method("puct", plan)
