"""Method: plans the next step of a run from its state. Pure: same state and generator, same plan.

Operators are a bandit: each is used in proportion to how often it has led to a new best kernel in this run.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence

from kbench.generation.search.settings import FilterSettings
from kbench.generation.search.state import Node, Operator, ProposalRequest, RunState

PlanStep = Callable[[RunState, int, random.Random], tuple[ProposalRequest, ...]]
"""plan(state, count, rng) -> `count` requests for the next step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """A named way to choose what to propose next."""

    name: str
    """Of a built-in; runs name a file's method after the file."""
    plan: PlanStep
    guide: FilterSettings | None = None
    """How the method chooses among its candidates, where the run's settings name no surrogate."""


PRIOR: Mapping[Operator, float] = {
    Operator.FRESH: 0.02, Operator.MUTATE: 0.25, Operator.CROSS: 0.15, Operator.REWRITE: 0.05, Operator.LLM: 0.35,
}  # fmt: skip
"""How often an operator is expected to give a new best kernel, before it has been tried. Tuned on training problems,
except that of a language model: in recorded searches there its changes gave one in 44 % of cases, those of genes in
30 %."""
LLM = "llm"
AUTHORS_PRIOR: Mapping[Operator, float] = {
    Operator.FRESH: 0.1, Operator.MUTATE: 0.4, Operator.CROSS: 0.15, Operator.REPAIR: 0.3,
}  # fmt: skip
"""The same where a language model writes every kernel. In its recorded searches of six steps changes gave a new best
in 44 % of cases and crossings in 27 %; fresh kernels and repairs did so more often, but early, while bests are low."""
PRIOR_USES = 8.0
"""Imagined uses that show it."""
LEAST = 0.02
"""No operator is drawn less often than this: what does not pay now may pay later."""
MARGIN = 1.005
"""A speedup counts as better from this factor on; less may be noise."""
CHANGES_TEXT = (Operator.REWRITE, Operator.LLM)
"""Operators that a proposer has beside genes where its name says so, as `genome+llm` does."""


def available(proposer: str) -> list[Operator]:
    """The operators to choose from with a proposer of this name."""
    if proposer == LLM:
        return list(AUTHORS_PRIOR)
    parts = proposer.split("+") if "+" in proposer else []
    return [one for one in PRIOR if one not in CHANGES_TEXT or one.value in parts]


def chances(state: RunState) -> Mapping[Operator, float]:
    """The chance of each operator that the run's proposer has."""
    operators = available(state.settings.proposer)
    prior = AUTHORS_PRIOR if state.settings.proposer == LLM else PRIOR
    tries = outcomes(state)
    success_rates = {
        one: (sum(tries.get(one, ())) + PRIOR_USES * prior[one]) / (len(tries.get(one, ())) + PRIOR_USES)
        for one in operators
    }
    total = sum(success_rates.values())
    return {one: max(LEAST, value / total) for one, value in success_rates.items()}


def derivation(state: RunState, rng: random.Random) -> Operator:
    """How a method that only changes parents changes one: by genes or, where the proposer can, by text."""
    weights = {one: chance for one, chance in chances(state).items() if one in (Operator.MUTATE, *CHANGES_TEXT)}
    if len(weights) == 1:
        return Operator.MUTATE
    return rng.choices(list(weights), list(weights.values()))[0]


def outcomes(state: RunState) -> Mapping[Operator, list[bool]]:
    """For each operator, whether its kernels beat the best of all earlier steps. The first step has none before it."""
    best: dict[int, float] = {}
    for node in state.rewarded():
        best[node.step] = max(best.get(node.step, 0.0), node.reward or 0.0)
    operators = available(state.settings.proposer)
    improved: dict[Operator, list[bool]] = {}
    for node in state.nodes.values():
        if node.outcome is not None and node.step > 0:
            before = max((reward for step, reward in best.items() if step < node.step), default=0.0)
            improved.setdefault(operator_of(node, operators), []).append((node.reward or 0.0) > MARGIN * before)
    return improved


def operator_of(node: Node, known: Sequence[Operator]) -> Operator:
    """Which of the known operators a candidate came about by."""
    if node.operator is Operator.REPAIR:
        return Operator.REPAIR
    if node.parent_id is None:
        return Operator.FRESH
    if node.other_id is not None:
        return Operator.CROSS
    return next((one for one in CHANGES_TEXT if one in known and one.value == node.proposer), Operator.MUTATE)
