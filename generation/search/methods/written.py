"""No search: kernels that already exist are brought in as they are, step by step."""

from __future__ import annotations

import random

from kbench.generation.search.methods.method import Method
from kbench.generation.search.state import FRESH, ProposalRequest, RunState

PREFIX = "written+"
"""Before the name of a method that varies kernels from a folder."""


def plan(state: RunState, count: int, rng: random.Random) -> tuple[ProposalRequest, ...]:
    """The next kernels of the folder; the proposer says when there are no more."""
    return (FRESH,) * count


METHOD = Method("written", plan)
NAMES = (METHOD.name, "none")
"""Older logs say `none`."""
