"""The rewrite proposer: one or two source-level edits of a parent."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from kbench.generation.proposers.rewrite import cuda_operators, launch_operators, triton_operators
from kbench.generation.proposers.rewrite.cuda_text import cuda_texts, is_balanced
from kbench.generation.proposers.rewrite.edit import Edit, EditOperator, Module
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Node
from kbench.schemas import Backend
from kbench.schemas.ids import kernel_id

OPERATORS: dict[Backend, tuple[EditOperator, ...]] = {
    Backend.TRITON: (*launch_operators.TRITON_LAUNCH, *triton_operators.OPERATORS),
    Backend.CUDA: (*launch_operators.CUDA_LAUNCH, *cuda_operators.OPERATORS),
}
TRIES = 8
SECOND_EDIT = 0.35
"""Chance of a second edit on top of the first."""


class RewriteProposer:
    """Edits a parent's text; it needs no genome and works on any kernel."""

    name = "rewrite"

    def propose(self, task: ProposalTask, asks: Sequence[Ask]) -> Iterator[Answer]:
        """One edited kernel for each ask; fresh asks have nothing to edit and are refused."""
        for ask in asks:
            if ask.parent is None:
                yield Refusal(reason="no parent: a rewrite needs a kernel to edit", proposer=self.name)
            else:
                yield self._answer(task, ask.parent, ask.rng)

    def _answer(self, task: ProposalTask, parent: Node, rng: random.Random) -> Answer:
        answer: Answer = Refusal(reason="no edit: no operator changes this text", proposer=self.name)
        for _ in range(TRIES):
            source, used = edited(parent.source, task.backend, rng)
            if not used or not parses(source):
                continue
            answer = Proposal(
                source=source, proposer=self.name, edit="; ".join(edit.what for _, edit in used),
                parent_id=parent.kernel_id, niche=" + ".join([parent.niche, *(name for name, _ in used)]),
            )  # fmt: skip
            if not task.seen(kernel_id(task.problem_id, task.backend, source)):
                break
        return answer


def edited(source: str, backend: Backend, rng: random.Random) -> tuple[str, list[tuple[str, Edit]]]:
    """The text after one edit or two, and the edits with their operators' names."""
    used: list[tuple[str, Edit]] = []
    for _ in range(2 if rng.random() < SECOND_EDIT else 1):
        drawn = random_edit(source, backend, rng)
        if drawn is None:
            break
        source = drawn[1].apply(source)
        used.append(drawn)
    return source, used


def random_edit(source: str, backend: Backend, rng: random.Random) -> tuple[str, Edit] | None:
    """An edit by an operator drawn at random among those that find a place; None when none does."""
    module = parsed(source)
    if module is None:
        return None
    operators = list(OPERATORS[backend])
    rng.shuffle(operators)
    for operator in operators:
        edits = [edit for edit in operator.find(module, rng) if edit.apply(source) != source]
        if edits:
            return operator.name, rng.choice(edits)
    return None


def parsed(source: str) -> Module | None:
    """The text as a module; None when it is not Python."""
    try:
        return Module(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def parses(source: str) -> bool:
    """Whether the text is Python whose CUDA strings have their brackets paired."""
    module = parsed(source)
    return module is not None and all(is_balanced(text.tokens) for text in cuda_texts(module))
