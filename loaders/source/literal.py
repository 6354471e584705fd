"""Python string literals taken apart into what they mean and how they spell it."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

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
            found = _ESCAPE.match(body, position)
            piece = found.group() if found else body[position]
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
