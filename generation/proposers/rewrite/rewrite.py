"""The rewrite proposer: one or two source-level edits of a parent; among them those of its launches."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Sequence

from kbench.generation.proposers.rewrite import cuda_operators, triton_operators
from kbench.generation.proposers.rewrite.cuda_operators import cuda_texts, is_balanced
from kbench.generation.proposers.rewrite.edit import (
    Edit,
    EditOperator,
    Module,
    in_order,
    int_value,
    is_tile,
    keyword,
    other_keyword,
    other_tile,
    with_keyword,
)
from kbench.generation.search.proposal import Answer, Ask, Proposal, ProposalTask, Refusal
from kbench.generation.search.state import Node
from kbench.schemas import Backend
from kbench.schemas.ids import kernel_id

WARPS = (1, 2, 4, 8, 16)
STAGES = (1, 2, 3, 4, 5)
SMALLEST, LARGEST = 8, 16384
"""Powers of two outside these bounds are no tile sizes."""
REGISTER_CAPS = (40, 64, 96, 128, 168)


def _launches(module: Module) -> list[ast.Call]:
    """Calls of the form kernel[grid](…)."""
    host_calls = in_order(module.host_functions(), ast.Call)
    return [call for call in host_calls if isinstance(call.func, ast.Subscript)]


def _launch_option(name: str, choices: tuple[int, ...]) -> EditOperator:
    def find(module: Module, rng: random.Random) -> Iterator[Edit]:
        for call in _launches(module):
            held = keyword(call, name)
            if held is None or int_value(held.value) is not None:
                yield other_keyword(module, call, name, choices, rng, name + ": {before} -> {value}")

    return EditOperator(name, find)


def _tile_constants(module: Module, rng: random.Random) -> Iterator[Edit]:
    """Power-of-two constants: assigned names, and keyword arguments of launches."""
    inside = [node for function in module.host_functions() for node in ast.walk(function)]
    places = [
        (node.targets[0].id, node.value)
        for node in [*module.tree.body, *inside]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    for call in _launches(module):
        places.extend((one.arg, one.value) for one in call.keywords if one.arg and not one.arg.startswith("num_"))
    for name, node in places:
        before = int_value(node)
        if before is not None and is_tile(before, SMALLEST, LARGEST):
            value = other_tile(before, rng)
            yield module.replace(node, str(value), f"{name}: {before} -> {value}")


def _cuda_modules(module: Module) -> list[ast.Call]:
    module_calls = [node for node in ast.walk(module.tree) if isinstance(node, ast.Call)]
    return [call for call in module_calls if isinstance(call.func, ast.Name) and call.func.id == "CudaModule"]


def _register_cap(module: Module, rng: random.Random) -> Iterator[Edit]:
    for call in _cuda_modules(module):
        yield other_keyword(module, call, "max_registers", REGISTER_CAPS, rng, "max_registers: -> {value}")


def _fast_math(module: Module, rng: random.Random) -> Iterator[Edit]:
    for call in _cuda_modules(module):
        argument = keyword(call, "fast_math")
        value = not (argument and isinstance(argument.value, ast.Constant) and argument.value.value is True)
        yield with_keyword(module, call, "fast_math", str(value), f"fast_math: -> {value}")


OPERATORS: dict[Backend, tuple[EditOperator, ...]] = {
    Backend.TRITON: (
        _launch_option("num_warps", WARPS),
        _launch_option("num_stages", STAGES),
        EditOperator("tile constant", _tile_constants),
        *triton_operators.OPERATORS,
    ),
    Backend.CUDA: (
        EditOperator("tile constant", _tile_constants),
        EditOperator("register cap", _register_cap),
        EditOperator("fast math", _fast_math),
        *cuda_operators.OPERATORS,
    ),
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
    edits: list[tuple[str, Edit]] = []
    for _ in range(2 if rng.random() < SECOND_EDIT else 1):
        choice = random_edit(source, backend, rng)
        if choice is None:
            break
        source = choice[1].apply(source)
        edits.append(choice)
    return source, edits


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
