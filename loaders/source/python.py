"""Python texts read: tokens with offsets, trees, and string literals taken apart into meaning and spelling."""

from __future__ import annotations

import ast
import io
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_MARKERS = frozenset((ast.Load, ast.Store, ast.Del))
"""Half of a tree's nodes, which only say how a name is used."""
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError)
"""What parsing or reading a text that is not Python raises."""


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
    pieces: list[PythonToken] = []
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
                pieces.append(PythonToken("STRING", first, end, source[first:end]))
        elif not opened:
            pieces.append(PythonToken(kind, start, end, token.string))
    return pieces


PLACEHOLDER = "\ue000"
"""What a `{…}` of an f-string counts as: one character that no language gives a meaning."""

_OPENING = re.compile(r"([A-Za-z]*)('''|\"\"\"|'|\")")
_ESCAPE = re.compile(r"\\(?:[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|.)", re.DOTALL)


class Literal:
    """One literal: opening, body, closing; `value` is what the body means, and `offsets` where each character of the
    value is spelt in the body."""

    def __init__(self, text: str) -> None:
        opening = _OPENING.match(text)
        if opening is None:
            raise ValueError(f"not a string literal: {text[:40]!r}")
        self.opening = opening.group()
        self.closing = opening.group(2)
        self.prefix = opening.group(1).lower()
        self.body = text[len(self.opening) : len(text) - len(self.closing)]
        self.value, self.offsets = self._read()

    def _read(self) -> tuple[str, Sequence[int]]:
        is_plain = ("r" in self.prefix or "\\" not in self.body) and not set(self.prefix) & {"f", "t"}
        if is_plain:
            return self.body, range(len(self.body) + 1)
        value: list[str] = []
        offsets: list[int] = []
        position = 0
        while position < len(self.body):
            piece, char = self._piece(position)
            value.append(char)
            offsets += [position] * len(char)
            position += len(piece)
        return "".join(value), [*offsets, len(self.body)]

    def _piece(self, position: int) -> tuple[str, str]:
        body = self.body
        if body[position] == "\\" and "r" not in self.prefix:
            escape = _ESCAPE.match(body, position)
            piece = escape.group() if escape else body[position]
            return piece, _unescape(piece)
        if body[position] in "{}" and ("f" in self.prefix or "t" in self.prefix):
            if body.startswith(body[position] * 2, position):
                return body[position] * 2, body[position]
            return body[position : _field_end(body, position)], PLACEHOLDER
        return body[position], body[position]


def _unescape(piece: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "\d" warns, and means itself
        try:
            value = str(ast.literal_eval(f'"{piece}"')) if piece != '\\"' else '"'
        except SyntaxError:  # \N{…} of a bytes literal is no escape
            return PLACEHOLDER
    return value if len(value) <= 1 else PLACEHOLDER


def _field_end(body: str, position: int) -> int:
    """Where the `{…}` that opens at `position` ends; quotes inside may hold braces."""
    depth, quote = 0, ""
    while position < len(body):
        char = body[position]
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        else:
            depth += (char in "{([") - (char in "})]")
        position += 1
        if depth == 0 and not quote:
            break
    return position


def files_with(file: Path) -> list[Path]:
    """A Python file and those beside it that it imports, and that they import in turn; in a fixed order."""
    files = {file}
    _add_imported(file, file.parent, files)
    return sorted(files)


def _add_imported(file: Path, folder: Path, files: set[Path]) -> None:
    try:
        nodes = list(walk(parse(file.read_text())))
    except (OSError, *UNREADABLE):
        # Whoever runs it says what is wrong.
        return
    for node in nodes:
        names = [one.name for one in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        start = folder
        if isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(".".join(filter(None, (node.module, name))) for name in names)]
            start = file.parents[node.level - 1] if node.level else folder
        for parts in (name.split(".") for name in names):
            for length in range(1, len(parts) + 1):
                module = start.joinpath(*parts[:length])
                for path in (module.with_name(f"{module.name}.py"), module / "__init__.py"):
                    if path.is_relative_to(folder) and path not in files and path.is_file():
                        files.add(path)
                        _add_imported(path, folder, files)
