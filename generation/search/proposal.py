"""Proposal: what a proposer answers to one request, the protocol proposers follow, and which answers are refused.

A proposal that repeats a measured kernel is refused, so that no GPU time is spent on learning nothing.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kbench.generation.search.state import BestKnown, BestReference, Node, Operator
from kbench.loaders.source.similarity import GRAM, TOKEN
from kbench.loaders.source.strip import strip_comments
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
    references: Mapping[str, BestReference] = dataclasses.field(default_factory=dict)
    """The best reference of each workload, where it was timed."""
    ancestors: tuple[Node, ...] = ()
    """The parent's own, oldest first."""
    tried: tuple[Node, ...] = ()
    """Measured children of the parent."""
    archive: tuple[Node, ...] = ()
    """The run's best kernels of different structure, fastest first."""
    place: str = ""
    """A hash of run, step, slot, operator and parents: the same ask has the same place whenever it is made."""


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


LONGEST_SOURCE = 200_000
"""Longest proposal, in characters, that may be a kernel."""
SIMILAR = 0.95
"""Similarity from which a kernel repeats another."""


class Text(NamedTuple):
    """What of a kernel's text is compared."""

    stripped: str
    """The text without comments."""
    grams: frozenset[tuple[str, ...]]
    """Its runs of five tokens, every number masked."""


def near_duplicate(source: str, measured: Iterable[Node]) -> str | None:
    """Which measured kernel a text repeats, in words; None when it repeats none.

    The text of a failed kernel is repeated only when it is equal but for comments: a small change may be its repair.
    """
    own = read_text(source)
    for node in measured:
        other = read_text(node.source)
        if other.stripped == own.stripped:
            return f"{node.kernel_id} is the same but for comments"
        alike = similarity(own, other) if node.reward is not None else 0.0
        if alike >= SIMILAR:
            return f"{node.kernel_id} has similarity {alike:.3f} with numbers masked"
    return None


@functools.lru_cache(maxsize=256)
def read_text(source: str) -> Text:
    """A kernel's text made comparable; the kernels of a problem are compared over and over."""
    stripped = strip_comments(source)
    tokens = ["0" if piece[0].isdigit() else piece for piece in TOKEN.findall(stripped)]
    return Text(stripped, frozenset(zip(*(tokens[start:] for start in range(GRAM)), strict=False)))


def similarity(one: Text, other: Text) -> float:
    """The Jaccard similarity of two texts' runs of tokens; 0 where both have none."""
    union = len(one.grams | other.grams)
    return len(one.grams & other.grams) / union if union else 0.0


OTHER_BACKEND = {Backend.CUDA: "triton.jit", Backend.TRITON: "__global__"}
"""What no kernel of a backend holds, and every one of the other does."""


def refuse_source(source: str, backend: Backend) -> str | None:
    """Why a text cannot be a kernel at all; None when it may be one."""
    if len(source) > LONGEST_SOURCE:
        return f"too long: {len(source)} characters, more than {LONGEST_SOURCE}"
    if "\x00" in source:
        return "not text: a null character"
    try:
        source.encode()
    except UnicodeEncodeError:
        return "not text: it cannot be encoded as UTF-8"
    if "def run" not in source and backend is not Backend.CONFIG:
        return "no kernel: it defines no function run"
    if (other := OTHER_BACKEND.get(backend)) and other in source:
        return f"other backend: {other!r} in a {backend.value} kernel"
    return None
