"""C++ comments: where they are in a text, and the edits that take them out."""

from __future__ import annotations

import re
from collections.abc import Iterator

Edit = tuple[int, int, str]
"""Start, end, new text."""

BLANKS = " \t\f\v"
_RAW_OPEN = re.compile(r'(?:u8|u|U|L)?R"([^()\\\s"]{0,16})\(')
_INCLUDE = re.compile(r"[ \t]*#[ \t]*include[ \t]*<[^>\n]*>")
_DULL = re.compile(r"[^/\"'#\w]+")
_PLAIN = re.compile(r"""(?:[^/"'#\w]+|\w+(?!['"\w]))+""")
"""Code up to the next character that could open a comment or a literal; a word before a quote may be its prefix."""


def strip_cpp(source: str) -> str:
    """C++ without comments: a block comment reads as one blank, a line that held nothing else goes."""
    result: list[str] = []
    position = 0
    for start, end, new in comment_edits(source):
        result += [source[position:start], new]
        position = end
    return "".join(result) + source[position:]


def comment_edits(text: str, *, keep_final_mark: bool = False) -> list[Edit]:
    """The edits that strip a C++ text, in order.

    Args:
        text: the C++.
        keep_final_mark: leave a bare `//` where the text ends inside a line comment, because more text is appended
            to it elsewhere and would otherwise come out of the comment.
    """
    edits: list[Edit] = []
    for start, end in comment_spans(text):
        is_block = text.startswith("/*", start)
        if end == len(text) and not is_block and keep_final_mark:
            edits.append((start, end, "//"))
        elif end == len(text) or text[end] == "\n":
            _close_line(edits, text, start, end, "/**/" if is_block else "//")
        else:
            after_edit = bool(edits) and edits[-1][1] == start
            apart = after_edit or start == 0 or text[start - 1] in BLANKS + "\n" or text[end] in BLANKS
            edits.append((start, end, "" if apart else " "))
    return edits


def _close_line(edits: list[Edit], text: str, start: int, end: int, empty: str) -> None:
    """Take out a comment that ends its line, with the blanks before it, and the line when nothing else is on it."""
    first = start
    while first and text[first - 1] in BLANKS:
        first -= 1
        while edits and edits[-1][1] >= first:
            first = min(first, edits.pop()[0])
    while edits and edits[-1][1] >= first:
        first = min(first, edits.pop()[0])
        while first and text[first - 1] in BLANKS:
            first -= 1
    before = text[first - 1] if first else "\n"
    spliced = text[max(0, first - 2) : first] == "\\\n"
    if before == "\\":
        # A bare backslash at the end would splice the next line on.
        edits.append((start, end, empty))
    elif end == len(text) and before in "'\"":
        # A bare quote at the end could close the Python literal around it early.
        edits.append((first, end, " "))
    elif before == "\n" and end < len(text) and not spliced:
        edits.append((first, end + 1, ""))
    else:
        edits.append((first, end, ""))


def comment_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where comments start and end; a line comment's newline is not part of it, an unclosed block comment is none."""
    position = 0
    while position < len(text):
        char = text[position]
        if char == "/" and text.startswith("//", position):
            end = _line_comment_end(text, position)
            yield position, end
            position = end
        elif char == "/" and text.startswith("/*", position):
            close = text.find("*/", position + 2)
            if close < 0:
                return
            yield position, close + 2
            position = close + 2
        else:
            position = _skip_code(text, position)


def _line_comment_end(text: str, position: int) -> int:
    while True:
        newline = text.find("\n", position)
        if newline < 0:
            return len(text)
        if newline == 0 or text[newline - 1] != "\\":
            return newline
        position = newline + 1


def _skip_code(text: str, position: int) -> int:
    plain = _PLAIN.match(text, position)
    if plain:
        return plain.end()
    char = text[position]
    if char == '"':
        return _skip_quoted(text, position, '"')
    if char == "'":
        return _skip_quoted(text, position, "'")
    if char == "#" and (position == 0 or text.rfind("\n", 0, position) + 1 == _line_start(text, position)):
        found = _INCLUDE.match(text, position)
        return found.end() if found else position + 1
    if char.isalnum() or char == "_":
        return _skip_word(text, position)
    dull = _DULL.match(text, position)
    return dull.end() if dull else position + 1


def _line_start(text: str, position: int) -> int:
    start = position
    while start and text[start - 1] in BLANKS:
        start -= 1
    return start


def _skip_word(text: str, position: int) -> int:
    raw = _RAW_OPEN.match(text, position)
    if raw:
        close = text.find(f'){raw.group(1)}"', raw.end())
        return len(text) if close < 0 else close + len(raw.group(1)) + 2
    number = text[position].isdigit()
    while position < len(text):
        char = text[position]
        # 1'000'000 has digit separators, not character literals.
        separator = number and char == "'" and text[position + 1 : position + 2].isalnum()
        if not (char.isalnum() or char == "_" or separator):
            break
        position += 1
    return position


def _skip_quoted(text: str, position: int, quote: str) -> int:
    position += 1
    while position < len(text):
        char = text[position]
        if char == "\\":
            position += 2
        elif char == quote:
            return position + 1
        elif char == "\n":
            return position  # unclosed: an apostrophe in an #error line, say
        else:
            position += 1
    return len(text)
