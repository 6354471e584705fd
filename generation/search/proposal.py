"""Proposal: what a proposer answers to one request, and the protocol proposers follow."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kbench.generation.search.state import BestKnown, Node, Operator
from kbench.schemas import Backend, KbenchError


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """One request with its parents looked up and its own random generator."""

    operator: Operator
    parent: Node | None
    other: Node | None
    rng: random.Random
    turn: int = 0
    """Where a rotation stands: it differs between the searches of a cell and grows from step to step."""
    best_known: BestKnown | None = None
    """The best kernel of the cell, for proposers that can use its idea."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProposalTask:
    """What all asks of a step have in common."""

    problem_id: str
    backend: Backend
    seen: Callable[[str], bool]
    """Whether a kernel id was proposed before, in this run or a sibling; proposers try a few times to avoid it."""
    gpu_facts_json: str = "{}"
    """What is known of the GPU, for proposers that can use it."""
    tokens_left: int | None = None
    """Tokens that the asks together may cost; None sets no limit."""


class BudgetSpentError(KbenchError):
    """Answering may cost more than is left; the run ends, and goes on when its budget is raised."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A candidate's text and where it came from."""

    source: str
    proposer: str
    edit: str | None = None
    """What was changed against the parent; None when there is none."""
    parent_id: str | None = None
    other_id: str | None = None
    recipe: Mapping[str, Any] | None = None
    """What the proposer needs to derive from this candidate later, such as its genome."""
    must_differ: bool = False
    """Whether a near-copy of a correct kernel is refused: for authors asked for new ideas, not for new numbers."""
    niche: str = ""
    """Candidates of one niche have the same structure."""
    input_tokens: int = 0
    output_tokens: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """No candidate, and why: `reason` starts with a short word for tables, then a colon and the detail."""

    reason: str
    proposer: str
    recipe: Mapping[str, Any] | None = None
    """Who was asked and what it cost, as far as the proposer knows."""
    input_tokens: int = 0
    output_tokens: int = 0


Answer = Proposal | Refusal


class Proposer(Protocol):
    """Turns asks into candidates."""

    name: str

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One answer for each ask, in order. Answers are consumed one by one: `task.seen` knows the earlier ones.

        Raises:
            WaitingForResponsesError: before the first answer, when some asks cannot be answered yet.
            BudgetSpentError: an ask may cost more than is left.
        """
        ...
