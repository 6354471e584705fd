"""Method: plans the next step of a run from its state. Pure: same state and generator, same plan."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from kbench.generation.search.settings import FilterSettings
from kbench.generation.search.state import ProposalRequest, RunState

PlanStep = Callable[[RunState, int, random.Random], tuple[ProposalRequest, ...]]
"""plan(state, count, rng) -> `count` requests for the next step."""


@dataclasses.dataclass(frozen=True, slots=True)
class Method:
    """A named way to choose what to propose next."""

    name: str
    plan: PlanStep
    guide: FilterSettings | None = None
    """How the method chooses among its candidates, where the run's settings name no surrogate."""
