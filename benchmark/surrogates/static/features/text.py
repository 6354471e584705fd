"""Reading a source's text: its tokens, and the numbers it sets by name.

Texts may be hostile: no pattern here or in `source` may look at a character more than a few times.
"""

from __future__ import annotations

import functools
import itertools
import re

TOKEN = re.compile(r"\w+|[^\s\w]")
SETTING = re.compile(r"=\s*(\d{1,7})(?!\w)\s*(?=(.?))", re.DOTALL)
NAME_BEFORE = re.compile(r"\s*(\w+)")
LONGEST_NAME = 256
# A pattern that begins with its word is found several times faster than one that begins with what is not before it.
DEFINE = re.compile(r"define(?<!\wdefine)\s+(\w+)\s+(\d{1,7})(?!\w)")
OPERATORS = frozenset("*/%+-.<>&|")
"""What follows a number that is only the beginning of an expression."""
MOST_TEXT = 128 * 1024
"""Characters of a source that are read, more than twice those of the longest kernel; a longer one is cut there, so
that whoever writes it does not decide how long it is read."""
MOST_SETTINGS = 1024
"""Settings of either form that are read, the first ones."""


def names_in(text: str) -> tuple[str, ...]:
    """Names set off by blanks: long lists read better without quotes."""
    return tuple(text.split())


def tokens_of(source: str) -> list[str]:
    """Words, numbers and marks, in order."""
    return TOKEN.findall(source)


@functools.lru_cache(maxsize=32768)
def settings_of(source: str) -> tuple[tuple[str, int], ...]:
    """Every `name = number` and `#define name number`, in order."""
    source, found = source[:MOST_TEXT], []
    for match in itertools.islice(SETTING.finditer(source), MOST_SETTINGS):
        # Few marks of equality have a number after them, so the name before is looked for last, from its end.
        name = NAME_BEFORE.match(source[max(match.start() - LONGEST_NAME, 0) : match.start()][::-1])
        if name and name[1][::-1].isidentifier() and match[2] not in OPERATORS:
            found.append((match.start(), name[1][::-1], int(match[1])))
    for match in itertools.islice(DEFINE.finditer(source), MOST_SETTINGS) if "define" in source else ():
        if match[1].isidentifier():
            found.append((match.start(), match[1], int(match[2])))
    return tuple((name, value) for _, name, value in sorted(found))
