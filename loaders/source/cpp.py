"""The lexer for CUDA C++, and a text without its comments."""

from __future__ import annotations

import re
from typing import NamedTuple

Edit = tuple[int, int, str]
"""Start, end, new text."""

BLANKS = " \t\f\v"
_COMMENT = r"(?P<comment>//[^\n]*(?:(?<=\\)\n[^\n]*)*|/\*.*?\*/)|(?P<unclosed>/\*.*)"
_TEXT = (
    r"""(?P<text>(?:u8|u|U|L)?R"(?P<fence>[^()\\\s"]{0,16})\((?:.*?\)(?P=fence)"|.*)"""
    r"""|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)"""
)
"""An ordinary literal that is not closed, such as the apostrophe of an #error line, ends with its line."""
_NUMBER = r"(?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)"
_WORD = rf"{_TEXT}|{_NUMBER}|(?P<name>\w+)"
_MARK = r"(?P<mark><<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|[^\s\w])"
_STRIPPED_TOKENS = re.compile(
    # Most tokens are names that are no prefix of a literal, or marks that open none.
    rf"""(?P<name>(?!\d)\w+(?!['"\w]))|(?P<mark>[^\s\w."']|\.(?!\d))|{_TEXT}|{_NUMBER}|\w+""",
    re.DOTALL,
)
_TOKENS = re.compile(rf"{_COMMENT}|(?P<directive>(?m:^)[ \t]*\#(?:\\\n|[^\n])*)|{_WORD}|{_MARK}", re.DOTALL)
_COMMENTS = re.compile(
    # Plain code in leaps, up to what could open a comment or a literal; a word before a quote may be its prefix.
    r"""(?:[^/"'#\w]+|\w+(?!['"\w]))+"""
    rf"|{_COMMENT}|{_TEXT}|\#[ \t]*include[ \t]*<[^>\n]*>|{_NUMBER}|\w+|.",
    re.DOTALL,
)


class CppToken(NamedTuple):
    """A token of a C++ text."""

    kind: str
    """directive, text, number, name or mark."""
    text: str
    start: int
    end: int


def tokens(text: str) -> list[CppToken]:
    """The tokens of a C++ text without its comments; a preprocessor line is one token."""
    return [
        CppToken(match.lastgroup or "", match.group(), match.start(), match.end())
        for match in _TOKENS.finditer(text)
        if match.lastgroup not in ("comment", "unclosed")
    ]


def stripped_tokens(text: str) -> list[tuple[str, str]]:
    """Kind and text of the tokens of a text without comments: marks one by one, preprocessor lines like others."""
    return [(token.lastgroup or "name", token.group()) for token in _STRIPPED_TOKENS.finditer(text)]


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
    # A line comment's newline is not part of it, an unclosed block comment is none.
    for start, end in (token.span() for token in _COMMENTS.finditer(text) if token.lastgroup == "comment"):
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
