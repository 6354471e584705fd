"""Scrub: what an endpoint says, without the key that was sent to it, before it is stored or shown.

A server may repeat a key in an error, a header or an answer, whole or in part, spelled otherwise or encoded; and files
with its words are published.
"""

from __future__ import annotations

import base64
import dataclasses
import re
import urllib.parse
from collections.abc import Iterator

from kbench.benchmark.llm.chat import Reply

REMOVED = "(removed)"
SHORTEST_SECRET = 6
"""Shorter words stand in for a key where a server needs none."""
TELLING = 12
"""So many characters of a key in a row are as bad as the key."""
BETWEEN = r"[\W_]{0,4}"
"""What may stand between the letters of a key; bounded, as all these are, because replies are long and hostile."""
LOOKS_SECRET = re.compile(
    r"(?i)\b(?:proxy-)?authorization\b[\"'\s:=]{0,8}(?:(?:bearer|basic|token|digest)\b[\s:]{0,8})?[^\s,;\"'}\]]{4,}"
    r"|\b(?:bearer|basic)\s{1,8}[\w.~+/-]{8,}=*"
    r"|\b(?:x-)?api[-_ ]?key[\"'\s]{0,8}[:=][\"'\s]{0,8}[^\s,;\"'}\]]{4,}"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho|ghs|github_pat|glpat|nvapi)[-_][\w-]{16,}|\b(?:AKIA|AIza)[\w-]{12,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
)
"""Headers that carry keys, and words of the forms that keys have."""
SECRET_MARKS = ("authorization", "bearer", "basic", "apikey", "sk", "pk", "rk", "xai", "hf", "ghp", "gho", "ghs", "pat",
                "nvapi", "akia", "aiza", "eyj")  # fmt: skip
"""Small letters, some of which each of them holds."""
IN_ADDRESS = re.compile(r"(?<=://)[^/\s@]+@")
"""User and password in an address."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scrubber:
    """Removes one key, and whatever looks like any."""

    _key: re.Pattern[str] | None
    _marks: tuple[str, ...] = ()
    """Small letters and digits, one of which each spelling of the key holds: most texts are read no further."""

    @classmethod
    def of(cls, key: str | None) -> Scrubber:
        """A scrubber for the key that is sent, if one is."""
        secret = (key or "").strip()
        if len(secret) < SHORTEST_SECRET:
            return cls(None)
        texts, patterns = zip(*_spellings(secret), strict=True)
        return cls(re.compile("|".join(patterns), re.IGNORECASE), tuple({_bare(text) for text in texts}))

    def text(self, text: str) -> str:
        """A text without keys."""
        bare = _bare(text)
        if self._key is not None and any(mark in bare for mark in self._marks):
            text = self._key.sub(REMOVED, text)
        if any(mark in bare for mark in SECRET_MARKS):
            text = LOOKS_SECRET.sub(REMOVED, text)
        return IN_ADDRESS.sub(f"{REMOVED}@", text) if "://" in text else text

    def reply(self, reply: Reply) -> Reply:
        """A reply of whose texts none holds a key."""
        return dataclasses.replace(
            reply,
            text=self.text(reply.text),
            failure=None if reply.failure is None else self.text(reply.failure),
            model=None if reply.model is None else self.text(reply.model),
            date=None if reply.date is None else self.text(reply.date),
        )


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def _spellings(key: str) -> Iterator[tuple[str, str]]:
    """A key as it is, turned around, encoded and in part; and a pattern for each."""
    letters = [char for char in key if char.isalnum()]
    for order in (letters, letters[::-1]):
        if len(letters) >= SHORTEST_SECRET:
            yield "".join(order), BETWEEN.join(order)
    # Three bytes are four letters: what is before the key decides which letters it has.
    packed = [base64.b64encode(b" " * before + key.encode()).decode().rstrip("=") for before in range(3)]
    packed = [text[4 if before else 0 : len(text) - 1] for before, text in enumerate(packed)]
    whole = [key, urllib.parse.quote(key, safe=""), key.encode().hex(), *packed]
    whole += [text.replace("+", "-").replace("/", "_") for text in packed]
    yield from ((text, re.escape(text)) for text in whole if len(text) >= SHORTEST_SECRET)
    for at in range(len(key) - TELLING + 1):
        part = key[at : at + TELLING]
        yield part, re.escape(part) + r"\S{0,99}"
