"""Edit: one change of a source text, with what it does in words."""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from kbench.loaders.source.python import Offsets

Choice = TypeVar("Choice", int, str)
N = TypeVar("N", ast.For, ast.Call)


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """Replacements of character spans, all against the same text."""

    spans: tuple[tuple[int, int, str], ...]
    what: str

    def apply(self, source: str) -> str:
        """The text with every span replaced."""
        for start, end, text in sorted(self.spans, reverse=True):
            source = source[:start] + text + source[end:]
        return source


@dataclasses.dataclass(frozen=True, slots=True)
class EditOperator:
    """A named kind of edit; `find` gives one edit for every place it could change, in order of the text."""

    name: str
    find: Callable[[Module, random.Random], Iterable[Edit]]


class Module:
    """A parsed kernel text, with the way from tree positions to character offsets."""

    def __init__(self, source: str) -> None:
        """Parse.

        Raises:
            SyntaxError: the text is not Python.
        """
        self.source = source
        self.tree = ast.parse(source)
        self.span = Offsets(source).span

    def text(self, node: ast.expr | ast.stmt | ast.keyword) -> str:
        """A node's text."""
        start, end = self.span(node)
        return self.source[start:end]

    def replace(self, node: ast.expr | ast.stmt | ast.keyword, text: str, what: str) -> Edit:
        """An edit that puts other text in a node's place."""
        return Edit(((*self.span(node), text),), what)

    def device_functions(self) -> list[ast.FunctionDef]:
        """Functions under @triton.jit."""
        return [f for f in self.functions() if any(_is_jit(d) for d in f.decorator_list)]

    def host_functions(self) -> list[ast.FunctionDef]:
        """Functions that run as Python."""
        return [f for f in self.functions() if not any(_is_jit(d) for d in f.decorator_list)]

    def functions(self) -> list[ast.FunctionDef]:
        """Functions at the top level."""
        return [node for node in self.tree.body if isinstance(node, ast.FunctionDef)]


def in_order(roots: Sequence[ast.AST], kind: type[N]) -> list[N]:
    """The nodes of a kind under the roots, in order of the text."""
    nodes = [node for root in roots for node in ast.walk(root) if isinstance(node, kind)]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))


def _is_jit(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "jit"


def calls(roots: Sequence[ast.AST], name: str) -> list[ast.Call]:
    """Calls of `tl.name` under the roots, in order of the text."""
    return [call for call in in_order(roots, ast.Call) if ast.unparse(call.func) == f"tl.{name}"]


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """A call's keyword argument."""
    return next((one for one in call.keywords if one.arg == name), None)


def with_keyword(module: Module, call: ast.Call, name: str, value: str, what: str) -> Edit:
    """An edit that sets a keyword argument, in place or at the end."""
    argument = keyword(call, name)
    if argument is not None:
        return module.replace(argument.value, value, what)
    end = module.span(call)[1] - 1
    tail = module.source[module.span(call)[0] : end].rstrip()
    comma = "" if tail.endswith((",", "(")) else ", "
    at = module.span(call)[0] + len(tail)
    return Edit(((at, at, f"{comma}{name}={value}"),), what)


def other_keyword(
    module: Module, call: ast.Call, name: str, choices: Sequence[Choice], rng: random.Random, what: str
) -> Edit:
    """An edit that gives a keyword argument another of the choices; `what` may speak of {before} and {value}."""
    argument = keyword(call, name)
    before = argument.value.value if argument is not None and isinstance(argument.value, ast.Constant) else None
    value = rng.choice([choice for choice in choices if choice != before])
    text = f'"{value}"' if isinstance(value, str) else str(value)
    shown = "default" if before is None else before
    return with_keyword(module, call, name, text, what.format(before=shown, value=text))


def without_keyword(module: Module, call: ast.Call, name: str, what: str) -> Edit | None:
    """An edit that drops a keyword argument together with the comma before it."""
    argument = keyword(call, name)
    if argument is None:
        return None
    start, end = module.span(argument)
    before = module.source[:start].rstrip()
    if not before.endswith(","):
        return None
    return Edit(((len(before) - 1, end, ""),), what)


def int_value(node: ast.expr | None) -> int | None:
    """The value of an integer literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return None


def is_tile(value: int | None, smallest: int, largest: int) -> bool:
    """Whether a constant could be a tile size: a power of two within bounds."""
    return value is not None and smallest <= value <= largest and value & (value - 1) == 0


def other_tile(value: int, rng: random.Random) -> int:
    """Twice the tile size, or half of it."""
    return value * 2 if rng.random() < 0.5 else value // 2
