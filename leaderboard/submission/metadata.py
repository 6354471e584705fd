"""The rules of submission.json: its schema, what only its author can say, and texts that are what they seem."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kbench.leaderboard.submission.archive import METADATA_FILE
from kbench.leaderboard.submission.untrusted import Flaw, parse_json, shown
from kbench.schemas import DataError, Submission, from_dict, json_schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator, ValidationError

MOST_SECONDS, MOST_TOKENS = 1e10, 10**15
"""Caps on what all forecasts together may have cost, so that figures made of them stay finite."""
UNSTATED = "only you know: "
"""How the flaw begins that an author has not said what `kbench evaluate` left open."""
ONE_DAY = datetime.timedelta(days=1)
"""Between the earliest and the latest place on earth."""
SHOWN_ERRORS, SHOWN_REASON = 50, 300
"""Errors of the schema that are listed, and characters of each."""
TYPES = {
    "array": "a list", "boolean": "true or false", "integer": "a whole number", "null": "null", "number": "a number",
    "object": "an object", "string": "a text",
}  # fmt: skip
"""What JSON Schema calls a value, and what to give."""
READ = ("1.0.0", Submission.VERSION)
"""Versions of submission.json that are read; the later one knows another track."""
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
ALIKE = str.maketrans("01i5", "olls")
"""Letters and digits that pass for each other."""


def check_metadata(data: bytes | None) -> tuple[Submission | None, list[Flaw]]:
    """The metadata of a submission, where it can be read, and everything wrong with it.

    Args:
        data: the content of submission.json; None where it is missing.
    """
    if data is None:
        return None, [Flaw(METADATA_FILE, "file", "missing", "add it; docs/leaderboard.md says how")]
    try:
        value = parse_json(data, METADATA_FILE)
    except DataError as error:
        return None, [Flaw(METADATA_FILE, "file", "unreadable", str(error))]
    errors = sorted(_validator().iter_errors(value), key=lambda e: list(map(str, e.path)))
    if errors:
        return None, [
            Flaw(
                METADATA_FILE,
                "/".join(map(str, error.path)) or "(top level)",
                shown(error.instance),
                _asked_for(error),
            )
            for error in errors[:SHOWN_ERRORS]
        ]
    try:
        submission = from_dict(Submission, value)
    except DataError as error:
        return None, [Flaw(METADATA_FILE, "record", "invalid", str(error))]
    if submission.schema_version not in READ:
        fix = f"this kbench reads {' and '.join(READ)}"
        return None, [Flaw(METADATA_FILE, "schema_version", shown(submission.schema_version), fix)]
    return submission, [Flaw(METADATA_FILE, field, value, fix) for field, value, fix in _wrong(submission)]


def _asked_for(error: ValidationError) -> str:
    """What the schema asks for where a value breaks it, in words where they are shorter than its own."""
    rule: Any = error.validator_value
    if error.validator == "type":
        return f"give {' or '.join(TYPES[name] for name in ([rule] if isinstance(rule, str) else rule))}"
    if error.validator == "pattern":
        choice = re.fullmatch(r"\^\(([a-z_|+]+)\)\$", rule)
        return f"give one of {', '.join(choice[1].split('|'))}" if choice else f"it must match {rule}"
    return error.message if len(error.message) < SHOWN_REASON else error.message[:SHOWN_REASON] + "…"


def _wrong(submission: Submission) -> Iterator[tuple[str, str, str]]:
    """Fields, their values and fixes."""
    # What `kbench evaluate` leaves for the author to say, and lists that say nothing.
    for name in ("authors", "license", "hardware", "training_data", "contamination"):
        for text in _texts(getattr(submission, name)):
            if text.startswith("unknown: "):
                yield name, "unknown", f"{UNSTATED}{text.removeprefix('unknown: ')}"
    for name, fix in (("authors", "name who made it"), ("tracks", "name the tracks that the forecasts are for")):
        if not getattr(submission, name):
            yield name, "[]", fix
    # Costs that no set of forecasts has, and dates that are none.
    for name, most in (("total_seconds", MOST_SECONDS), ("total_tokens", MOST_TOKENS)):
        value = getattr(submission, name)
        if value is not None and value > most:
            yield name, shown(value), f"must be at most {most:,.0f}"
    try:
        made = datetime.datetime.fromisoformat(submission.created_at)
    except ValueError:
        yield "created_at", shown(submission.created_at), "give a date such as 2026-02-14"
    else:
        made = made if made.tzinfo else made.replace(tzinfo=datetime.UTC)
        if made > datetime.datetime.now(datetime.UTC) + ONE_DAY:
            yield "created_at", shown(submission.created_at), "is in the future; give the date on which it was made"
    # Characters that turn text around or cannot be seen, and links that look like others.
    for field in dataclasses.fields(submission):
        for text in _texts(getattr(submission, field.name)):
            if odd := oddity(text):
                yield field.name, shown(text), odd
    for link in submission.links:
        if not link.isascii():
            yield "links", shown(link), "write the address in ASCII, as a browser copies it"


def _texts(value: Any) -> list[str]:
    """The texts of a field, which may hold one, several or none."""
    return [text for text in (value if isinstance(value, tuple) else (value,)) if isinstance(text, str)]


@functools.cache
def _validator() -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(json_schema(Submission))


def skeleton(name: str) -> str:
    """What is left of a name when letters and digits that look alike are one; equal ones pass for each other."""
    plain = "".join(char for char in name.lower() if char.isalnum())
    return plain.replace("rn", "m").replace("vv", "w").replace("cl", "d").translate(ALIKE)


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
    letters = re.findall(r"[^\W\d_]+", text)
    words = [(word, {script for char in word if (script := _script(char))}) for word in letters]
    latin = any("LATIN" in scripts for _, scripts in words)
    for word, scripts in words:
        if len(scripts) > 1 and not any(scripts <= allowed for allowed in TOGETHER):
            return f"the word {ascii(word)[:60]} mixes {' and '.join(sorted(scripts)).title()} letters"
        imitates = len(word) > 1 and all(char in LATIN_SHAPES for char in word)
        if latin and imitates and scripts & set(LOOKALIKE):
            return f"the word {ascii(word)[:60]} passes for a Latin one"
    return None


def _script(char: str) -> str:
    """The script of a letter, by its name; nothing for what all scripts share."""
    if unicodedata.category(char)[0] != "L" or char in "µªº":
        return ""
    return unicodedata.name(char, "UNKNOWN").split()[0]
