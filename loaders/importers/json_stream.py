"""JSON decoded value by value, so that a file cut short is noticed and taken up to its end where a format allows it."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kbench.loaders.importers.fields import shown
from kbench.loaders.importers.inputs import open_unpacked
from kbench.schemas import DataError

LARGEST_FILE = 2 << 30
"""Characters of a file once it is unpacked: a few kilobytes may be gzip of any number."""
LARGEST_VALUE = 24 << 20
"""Bytes of a line: more than any record of a format has, and few enough that a decoded one fits in memory."""
BLANKS = re.compile(r"[ \t\r\n]*")


class CutShortError(DataError):
    """The file ends before its value does."""

    def __init__(self, message: str, inside_value: bool) -> None:
        super().__init__(message)
        self.inside_value = inside_value
        """Whether it ends inside a decoded value rather than between two."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise DataError(f"holds a key twice: {shown([key for key, _ in pairs])}")
    return members


DECODER = json.JSONDecoder(object_pairs_hook=_unique)


class JsonStream:
    """A cursor over a JSON text: walk into objects and lists, decode values one by one.

    The text is in memory as a whole; its values, which take ten times as much, are not.
    """

    def __init__(self, path: Path, advance: Callable[[int], object] = lambda _: None) -> None:
        """Read a file; whoever is told of progress hears how many characters were decoded."""
        self.path, self._advance, self._at = path, advance, 0
        with open_unpacked(path) as raw, io.TextIOWrapper(raw, encoding="utf-8") as file:
            try:
                self._text = file.read(LARGEST_FILE + 1)
            except UnicodeDecodeError as error:
                raise DataError(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
        if len(self._text) > LARGEST_FILE:
            raise DataError(f"{path} has more than {LARGEST_FILE:,} characters; import it in parts")

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        blanks = BLANKS.match(self._text, self._at)
        self._at = blanks.end() if blanks else self._at
        return self._text[self._at : self._at + 1]

    def _near(self, at: int) -> str:
        return shown(self._text[at : at + 20])

    def take(self, wanted: str) -> None:
        """Step over one character."""
        character = self.peek()
        if not character:
            between = wanted in '}],"'
            raise CutShortError(f"{self.path} is cut short: it ends where {wanted!r} is expected", not between)
        if character != wanted:
            near = self._near(self._at)
            raise DataError(f"{self.path} is not the JSON of its format: {wanted!r} is expected at {near}")
        self._at += 1

    def value(self) -> Any:
        """The value that begins here."""
        self.peek()
        try:
            value, end = DECODER.raw_decode(self._text, self._at)
        except json.JSONDecodeError as error:
            if error.pos >= len(self._text.rstrip()) - 1 or "Unterminated" in error.msg:
                raise CutShortError(f"{self.path} is cut short: it ends inside a value", True) from None
            raise DataError(f"{self.path} is not JSON ({error.msg} at {self._near(error.pos)})") from None
        except DataError as error:
            raise DataError(f"{self.path} {error}") from None
        except (RecursionError, ValueError) as error:
            raise DataError(f"{self.path} holds a value that cannot be read ({type(error).__name__})") from None
        self._advance(end - self._at)
        self._at = end
        return value

    def members(self, *, once: bool = True) -> Iterator[str]:
        """The keys of the object that begins here; take each one's value before asking for the next.

        Args:
            once: refuse a key that came before; off where there may be millions of them.
        """
        self.take("{")
        first, seen = True, set[str]()
        while self.peek() != "}":
            if not first:
                self.take(",")
            first = False
            if self.peek() != '"':
                self.take('"')
            key = str(self.value())
            self.take(":")
            if key in seen:
                raise DataError(f"{self.path} holds the key {shown(key)} twice; keep one")
            if once:
                seen.add(key)
            yield key
        self.take("}")

    def elements(self) -> Iterator[int]:
        """The positions of the list that begins here; take each one's value before asking for the next."""
        self.take("[")
        number = 0
        while self.peek() != "]":
            if number:
                self.take(",")
            yield number
            number += 1
        self.take("]")

    def end(self) -> None:
        """Make sure nothing follows."""
        if self.peek():
            raise DataError(f"{self.path} has text after its JSON value: {self._near(self._at)}")


def json_lines(path: Path, advance: Callable[[int], object] = lambda _: None) -> Iterator[tuple[int, Any]]:
    """The values of a file with one JSON value per line, each with its line number from 1."""
    with open_unpacked(path) as file:
        for number, line in enumerate(iter(lambda: file.readline(LARGEST_VALUE + 1), b""), start=1):
            advance(len(line))
            if not line.strip():
                continue
            if len(line) > LARGEST_VALUE:
                raise DataError(f"{path}, line {number} is longer than any record of this format")
            try:
                yield number, DECODER.decode(line.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise DataError(f"{path}, line {number} is not text in UTF-8 ({error.reason})") from None
            except DataError as error:
                raise DataError(f"{path}, line {number} {error}") from None
            except (ValueError, RecursionError) as error:
                reason = error.msg if isinstance(error, json.JSONDecodeError) else type(error).__name__
                raise DataError(f"{path}, line {number} is not JSON ({reason}); the file is cut or damaged") from None


class Opening:
    """The beginning of a JSON file: its first object when the file has one per line, else its first keys."""

    def __init__(self, head: bytes) -> None:
        self.text = head.decode("utf-8", "replace")
        first = self.text.lstrip().split("\n", 1)[0]
        self.first_line: Mapping[str, Any] | None = None
        try:
            value = json.loads(first)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            self.first_line = value

    def has_keys(self, *keys: str) -> bool:
        """Whether all these keys occur as keys in the opening."""
        return all(f'"{key}"' in self.text for key in keys)
