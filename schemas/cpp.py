"""C++ comments: where they are in a text, seen through whatever spelling a Python literal gave the text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """One character of C++ (`char`) and the spelling that stands for it where it was found (`text`)."""

    char: str
    text: str


SPACE = Unit(" ", " ")
BLANKS = " \t\f\v"
_RAW_OPEN = re.compile(r'(?:u8|u|U|L)?R"([^()\\\s"]{0,16})\(')
_INCLUDE = re.compile(r"[ \t]*#[ \t]*include[ \t]*<[^>\n]*>")


def plain_units(text: str) -> list[Unit]:
    """Units of a text that is spelt as it reads."""
    return [Unit(char, char) for char in text]


def strip_cpp(source: str) -> str:
    """C++ without comments: a block comment reads as one blank, a line that held nothing else goes."""
    return "".join(unit.text for unit in strip_units(plain_units(source)))


def strip_units(units: Sequence[Unit], *, keep_final_mark: bool = False) -> list[Unit]:
    """The units without comments.

    Args:
        units: the C++ text.
        keep_final_mark: leave a bare `//` where the text ends inside a line comment, because more text is appended
            to it elsewhere and would otherwise come out of the comment.
    """
    text = "".join(unit.char for unit in units)
    kept: list[Unit] = []
    position = 0
    for start, end in comment_spans(text):
        kept.extend(units[position:start])
        position = end
        if text.startswith("/*", start):
            if _ends_line(text, end):
                position = _close_line(kept, text, end, units[start:end])
            elif not (kept and kept[-1].char in BLANKS + "\n") and text[end] not in BLANKS:
                kept.append(SPACE)
        elif end == len(text) and keep_final_mark:
            kept.extend(units[start : start + 2])
        else:
            position = _close_line(kept, text, end, units[start:end])
    kept.extend(units[position:])
    return kept


def _ends_line(text: str, position: int) -> bool:
    return position == len(text) or text[position] == "\n"


def _close_line(kept: list[Unit], text: str, end: int, comment: Sequence[Unit]) -> int:
    """Drop the blanks before a comment that ends its line, and the line itself when nothing else is on it.

    Returns:
        where copying goes on: past the newline when the line went.
    """
    blanks = len(kept)
    while blanks and kept[blanks - 1].char in BLANKS:
        blanks -= 1
    before = kept[blanks - 1].char if blanks else ""
    if before == "\\" or (end == len(text) and before in ("'", '"')):
        # A bare backslash would splice the next line on, and a bare quote would close the Python literal early.
        kept[blanks:] = _empty(comment) if before == "\\" else [SPACE]
        return end
    del kept[blanks:]
    spliced = len(kept) >= 2 and kept[-2].char == "\\"
    if end < len(text) and (not kept or before == "\n") and not spliced:
        return end + 1
    return end


def _empty(comment: Sequence[Unit]) -> list[Unit]:
    """The comment without its words."""
    closing = comment[-2:] if comment[1].char == "*" else []
    return [*comment[:2], *closing]


def comment_spans(text: str) -> Iterable[tuple[int, int]]:
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
    return position + 1


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
