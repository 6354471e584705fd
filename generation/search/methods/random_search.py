"""Random search: every candidate is drawn afresh. The baseline for the other methods."""

from __future__ import annotations

import random

from kbench.generation.search.methods.method import Method
from kbench.generation.search.state import FRESH, ProposalRequest, RunState


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """Fresh candidates only."""
    return (FRESH,) * count


METHOD = Method("random", plan)
