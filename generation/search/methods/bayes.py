"""Bayesian optimisation: many candidates, half of them fresh and half bred; a model of the run chooses among them."""

from __future__ import annotations

import random

from kbench.generation.search.methods import evolve
from kbench.generation.search.methods.method import Method
from kbench.generation.search.settings import FilterSettings
from kbench.generation.search.state import FRESH, ProposalRequest, RunState


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Half fresh candidates, half children as in evolution."""
    fresh = count // 2
    return (*(FRESH,) * fresh, *evolve.plan(state, count - fresh, rng))


METHOD = Method("bayes", plan, FilterSettings(surrogate="online", draw=8, unsure_share=0.0))
