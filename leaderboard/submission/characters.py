"""Texts that are not what they seem: characters that cannot be seen, and letters that pass for others."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

UNSEEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, format characters, half characters, private and unassigned ones, line and paragraph separators."""
BLANK = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters of other categories that show nothing, or a gap."""
JOINERS = "\u200c\u200d"
JOINED = ("ARABIC", "SYRIAC", "DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA",
          "MALAYALAM", "SINHALA", "KHMER", "MYANMAR", "MONGOLIAN")  # fmt: skip
"""Scripts whose words need joiners."""
TOGETHER = ({"HIRAGANA", "KATAKANA", "CJK", "KATAKANA-HIRAGANA"}, {"HANGUL", "CJK"}, {"BOPOMOFO", "CJK"})
"""Scripts that one word may mix."""
LOOKALIKE = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET", "OSAGE", "WARANG")
"""Scripts with letters that look like Latin ones."""
LATIN_SHAPES = frozenset("аеорсухіјѕһԁԛԝкмтвнАВЕКМНОРСТУХІЈЅαοορνικυχρτωγΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոհցքզգԱՍՕՏԼ")
"""Letters that pass for Latin ones."""
MOST_MARKS = 3
"""Marks over one letter; more hide the line above."""
MARKS = re.compile(
    f"[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{{{MOST_MARKS + 1},}}"
)
ORDINARY = "ªº²³¹"


def oddity(text: str) -> str | None:
    """What is wrong with a text's characters; None when nothing is."""
    for at, char in enumerate(text):
        if char in "\t\n" or (char in JOINERS and _joins(text, at)):
            continue
        if unicodedata.category(char) in UNSEEN_CATEGORIES or BLANK.match(char):
            return f"U+{ord(char):04X} cannot be seen; leave it out"
        plain = unicodedata.normalize("NFKC", char)
        if plain != char and char not in ORDINARY and plain.isascii() and plain.isalnum():
            return f"U+{ord(char):04X} passes for {plain!r}; write that"
    if MARKS.search(text):
        return f"more than {MOST_MARKS} marks stand over one letter; leave them out"
    return _mixed(text)


def _joins(text: str, at: int) -> bool:
    around = text[max(0, at - 1) : at] + text[at + 1 : at + 2]
    return len(around) == 2 and all(_script(char) in JOINED for char in around)


def _mixed(text: str) -> str | None:
    words = list(_words(text))
    latin = any("LATIN" in scripts for _, scripts in words)
    for word, scripts in words:
        if len(scripts) > 1 and not any(scripts <= allowed for allowed in TOGETHER):
            return f"the word {ascii(word)[:60]} mixes {' and '.join(sorted(scripts)).title()} letters"
        imitates = len(word) > 1 and all(char in LATIN_SHAPES for char in word)
        if latin and imitates and scripts & set(LOOKALIKE):
            return f"the word {ascii(word)[:60]} passes for a Latin one"
    return None


def _words(text: str) -> Iterator[tuple[str, set[str]]]:
    for word in re.findall(r"[^\W\d_]+", text):
        yield word, {script for char in word if (script := _script(char))}


def _script(char: str) -> str:
    """The script of a letter, by its name; nothing for what all scripts share."""
    if unicodedata.category(char)[0] != "L" or char in "µªº":
        return ""
    return unicodedata.name(char, "UNKNOWN").split()[0]
