"""The lexer for Python: tokens with offsets, the way from tree positions to offsets, and the nodes of a tree.

Plain sources are read by one regular expression, several times as fast as the standard tokenizer. It serves only text
that is known to parse, and only where the two agree: whatever is unusual (continued lines, tabs between tokens,
f-strings, other line ends, names beyond ASCII) is left to the standard tokenizer.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator
from typing import NamedTuple

_MARKERS = frozenset((ast.Load, ast.Store, ast.Del))
"""Half of a tree's nodes, which only say how a name is used."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)
"""What parsing or reading a text that is not Python raises."""

_TOKEN = re.compile(
    r"""[ ]*(?:(?P<NAME>[A-Za-z_][A-Za-z0-9_]*(?!['"\w]))"""
    r"""|(?P<STRING>[rRbBuU]{0,2}(?:'''(?:[^'\\]|\\.|'(?!''))*'''|\"\"\"(?:[^"\\]|\\.|"(?!""))*\"\"\""""
    r"""|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))"""
    r"""|(?P<NUMBER>0[xX][0-9a-fA-F_]+(?!\w)|0[bB][01_]+(?!\w)|0[oO][0-7_]+(?!\w)"""
    r"""|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9][0-9_]*)?[jJ]?(?!\w))"""
    r"""|(?P<COMMENT>\#[^\n]*)|(?P<END>\n)"""
    r"""|(?P<OP>\*\*=|//=|>>=|<<=|\.\.\.|->|:=|[-+*/%&|^@=<>!]=|\*\*|//|>>|<<|[-+*/%&|^~<>()\[\]{},:;.=@]))""",
    re.DOTALL,
)


class PythonToken(NamedTuple):
    """A token of a Python text; an f-string is one STRING in every Python version."""

    kind: str
    """As the standard tokenizer names it."""
    start: int
    end: int
    text: str


def parse(source: str) -> ast.Module:
    """The syntax tree, without the compiler's remarks about escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node of a tree but the marks of loads and stores, in no order, at a fraction of what `ast.walk` takes."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for value in node.__dict__.values():
            if type(value) is list:
                waiting += [item for item in value if isinstance(item, ast.AST)]
            elif isinstance(value, ast.AST) and type(value) not in _MARKERS:
                waiting.append(value)


class Offsets:
    """Character offsets from the (line, UTF-8 column) pairs of syntax trees and the (line, column) pairs of tokens."""

    def __init__(self, source: str) -> None:
        self.lines = source.split("\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)

    def of_token(self, position: tuple[int, int]) -> int:
        """Offset of a token's position."""
        return self.starts[position[0] - 1] + position[1]

    def of_node(self, line: int, column: int) -> int:
        """Offset of a tree position."""
        text = self.lines[line - 1]
        return self.starts[line - 1] + (column if text.isascii() else len(text.encode()[:column].decode()))

    def span(self, node: ast.stmt | ast.expr | ast.keyword) -> tuple[int, int]:
        """Where a node's text starts and ends."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.of_node(node.lineno, node.col_offset), self.of_node(node.end_lineno, node.end_col_offset)


def tokens(source: str) -> list[PythonToken]:
    """The tokens of a source that parses."""
    found = plain_tokens(source)
    return list(standard_tokens(source)) if found is None else found


def standard_tokens(source: str) -> Iterator[PythonToken]:
    """The tokens of any source that parses, by the standard tokenizer."""
    offsets = Offsets(source)
    opened: list[int] = []
    # A form feed resets the tokenizer's column, and splitlines-like readers would see more lines than there are.
    for token in tokenize.generate_tokens(io.StringIO(source, newline="\n").readline):
        kind = tokenize.tok_name[token.type]
        start, end = offsets.of_token(token.start), offsets.of_token(token.end)
        if kind.endswith("STRING_START"):
            opened.append(start)
        elif kind.endswith("STRING_END"):
            first = opened.pop()
            if not opened:
                yield PythonToken("STRING", first, end, source[first:end])
        elif not opened:
            yield PythonToken(kind, start, end, token.string)


def plain_tokens(source: str) -> list[PythonToken] | None:
    """The tokens of a source that parses, or None when it has something only the standard tokenizer should judge."""
    if "\r" in source or "\f" in source or "\0" in source or not source.endswith("\n"):
        return None
    found: list[PythonToken] = []
    depths = [0]
    nesting, read, fresh, size = 0, 0, True, len(source)
    for matched in _TOKEN.finditer(source):
        if matched.start() != read:
            return None
        kind = matched.lastgroup or ""
        text = matched[kind]
        read = matched.end()
        if kind == "END":
            kind = "NL" if nesting or fresh else "NEWLINE"
            fresh = fresh if nesting else True
        elif kind != "COMMENT":
            if fresh and not nesting:
                _indent(found, depths, source, read - len(text))
                fresh = False
            if kind == "OP":
                nesting += (text in "([{") - (text in ")]}")
        found.append(PythonToken(kind, read - len(text), read, text))
    if read != size:
        return None
    found += [PythonToken("DEDENT", size, size, "")] * (len(depths) - 1)
    found.append(PythonToken("ENDMARKER", size, size, ""))
    return found


def _indent(found: list[PythonToken], depths: list[int], source: str, position: int) -> None:
    line = source.rfind("\n", 0, position) + 1
    column = position - line
    if column > depths[-1]:
        depths.append(column)
        found.append(PythonToken("INDENT", line, position, source[line:position]))
    while column < depths[-1]:
        depths.pop()
        found.append(PythonToken("DEDENT", position, position, ""))
