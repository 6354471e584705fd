"""Edit: one change of a source text, with what it does in words."""

from __future__ import annotations

import ast
import dataclasses
import random
from collections.abc import Callable, Sequence

from kbench.loaders.source.python import Offsets


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
class Operator:
    """A named kind of edit; `find` lists every place of a text it could change, in order of the text."""

    name: str
    find: Callable[[Module, random.Random], list[Edit]]


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


def _is_jit(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) == "jit"


def calls(roots: Sequence[ast.AST], name: str) -> list[ast.Call]:
    """Calls of `tl.name` under the roots, in order of the text."""
    found = [
        node
        for root in roots
        for node in ast.walk(root)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "tl"
    ]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def keyword(call: ast.Call, name: str) -> ast.keyword | None:
    """A call's keyword argument."""
    return next((one for one in call.keywords if one.arg == name), None)


def with_keyword(module: Module, call: ast.Call, name: str, value: str, what: str) -> Edit:
    """An edit that sets a keyword argument, in place or at the end."""
    held = keyword(call, name)
    if held is not None:
        return module.replace(held.value, value, what)
    end = module.span(call)[1] - 1
    tail = module.source[module.span(call)[0] : end].rstrip()
    comma = "" if tail.endswith((",", "(")) else ", "
    at = module.span(call)[0] + len(tail)
    return Edit(((at, at, f"{comma}{name}={value}"),), what)


def without_keyword(module: Module, call: ast.Call, name: str, what: str) -> Edit | None:
    """An edit that drops a keyword argument together with the comma before it."""
    held = keyword(call, name)
    if held is None:
        return None
    start, end = module.span(held)
    before = module.source[:start].rstrip()
    if not before.endswith(","):
        return None
    return Edit(((len(before) - 1, end, ""),), what)


def int_value(node: ast.expr | None) -> int | None:
    """The value of an integer literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
        return node.value
    return None
