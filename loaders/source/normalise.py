"""Normalised source: what a question shows of a kernel, so that layout does not tell who wrote it.

Comments and docstrings are gone, blank lines are gone, blanks inside a line are single, and indentation follows from
nesting alone: four blanks for each block and bracket that is open. CUDA inside a string is treated like the Python
around it. The tokens of the program stay as they are, in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kbench.loaders.source.python import UNREADABLE, Literal, Offsets, PythonToken, parse, tokens
from kbench.loaders.source.strip import COMPILE_CALLS, CUDA_MARK, Spans, cuda_spans, is_cuda, read, string_groups

INDENT = "    "
_CPP_LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_BLANKS = re.compile(r"[ \t\f\v]+")


def normalised(source: str) -> str:
    """The source in its regular layout; text that is not Python is laid out by its brackets alone."""
    text = read(source).stripped
    try:
        tree, pieces = parse(text), tokens(text)
    except UNREADABLE:
        lines = (line.rstrip().expandtabs(4) for line in text.split("\n"))
        return _by_brackets(text) if CUDA_MARK.search(text) else "".join(f"{line}\n" for line in lines if line)
    compiling = any(piece.kind == "NAME" and piece.text in COMPILE_CALLS for piece in pieces)
    offsets = Offsets(text)
    compiled = Spans(offsets.span(node) for node in cuda_spans(tree)) if compiling else Spans()
    cuda = {piece.start for group, _ in string_groups(pieces) if is_cuda(group, compiled) for piece in group}
    return _laid_out(text, pieces, cuda)


def _laid_out(text: str, pieces: Iterable[PythonToken], cuda: set[int]) -> str:
    """The tokens again, each line indented by its blocks and brackets."""
    lines: list[str] = []
    line = ""
    block = brackets = 0
    end = 0
    for piece in pieces:
        if piece.kind in ("INDENT", "DEDENT"):
            block += 1 if piece.kind == "INDENT" else -1
        elif piece.kind in ("NEWLINE", "NL", "ENDMARKER"):
            lines += [line] if line else []
            line = ""
        else:
            closing = piece.kind == "OP" and piece.text in ")]}"
            brackets -= closing
            if not line:
                line = INDENT * (block + brackets)
            elif text[end : piece.start].strip(" \t\f\\\n") == "" and end < piece.start:
                # A backslash that goes on in the next line is a blank like any other.
                line += " "
            brackets += piece.kind == "OP" and piece.text in "([{"
            line += _literal(piece.text) if piece.start in cuda else piece.text
        end = piece.end
    return "\n".join([*lines, line] if line else lines) + "\n"


def _literal(text: str) -> str:
    """A string literal that holds CUDA, its lines laid out by their brackets."""
    literal = Literal(text)
    if len(literal.closing) == 1:
        return text
    body = _by_brackets(literal.body, doubled=bool(set(literal.prefix) & {"f", "t"}))
    return f"{literal.opening}\n{body}{literal.closing}"


def _by_brackets(text: str, doubled: bool = False) -> str:
    """Lines of C++ indented by open brackets; directives stand at the margin, as compilers have always read them.

    Args:
        text: the lines.
        doubled: whether braces are written twice, as in an f-string.
    """
    lines: list[str] = []
    depth = 0
    for raw in text.split("\n"):
        line = _single_blanks(raw.strip())
        if not line:
            continue
        code = _CPP_LITERAL.sub("", line)
        if doubled:
            code = code.replace("{{", "{").replace("}}", "}")
        leading = len(code) - len(code.lstrip(")]}"))
        lines.append(line if line.startswith("#") else INDENT * max(depth - leading, 0) + line)
        depth = max(depth + sum(map(code.count, "([{")) - sum(map(code.count, ")]}")), 0)
    return "".join(f"{line}\n" for line in lines)


def _single_blanks(line: str) -> str:
    """Runs of blanks as one, literals left alone."""
    parts, position = [], 0
    for literal in _CPP_LITERAL.finditer(line):
        parts += [_BLANKS.sub(" ", line[position : literal.start()]), literal.group()]
        position = literal.end()
    return "".join(parts) + _BLANKS.sub(" ", line[position:])
