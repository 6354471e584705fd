"""JSON read piece by piece, so that a file larger than memory can be imported and one cut short is noticed."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kbench.loaders.importers.fields import shown
from kbench.loaders.importers.inputs import open_unpacked
from kbench.schemas import DataError

CHUNK = 1 << 16
LARGEST_VALUE = 24 << 20
"""Characters of one value: more than any record of a format has, and few enough that a decoded one fits in memory."""
BLANKS = " \t\r\n"


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
    """A cursor over a JSON text: walk into objects and lists, decode values."""

    def __init__(self, path: Path, advance: Callable[[int], object] = lambda _: None) -> None:
        """Open a file.

        Args:
            path: the file.
            advance: told how many characters were read since the last call.
        """
        self.path, self._advance = path, advance
        self._file = io.TextIOWrapper(open_unpacked(path), encoding="utf-8")
        self._text, self._at, self._ended = "", 0, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def _fill(self, size: int = CHUNK) -> bool:
        try:
            more = self._file.read(size)
        except UnicodeDecodeError as error:
            raise DataError(f"{self.path} is not text in UTF-8 ({error.reason} at byte {error.start})") from None
        self._advance(len(more))
        self._text = self._text[self._at :] + more
        self._at = 0
        self._ended = not more
        return bool(more)

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in BLANKS:
                    return self._text[self._at]
                self._at += 1
            if self._ended or not self._fill():
                return ""

    def take(self, wanted: str) -> None:
        """Step over one character.

        Raises:
            CutShortError: the file ends here.
            DataError: another character stands here.
        """
        found = self.peek()
        if found != wanted:
            if not found:
                between = wanted in '}],"'
                raise CutShortError(f"{self.path} is cut short: it ends where {wanted!r} is expected", not between)
            near = shown(self._text[self._at : self._at + 20])
            raise DataError(f"{self.path} is not the JSON of its format: {wanted!r} is expected at {near}")
        self._at += 1

    def value(self) -> Any:
        """The value that begins here.

        Raises:
            CutShortError: the file ends inside it.
            DataError: it is not JSON.
        """
        self.peek()
        more = CHUNK
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > LARGEST_VALUE:
                    size = f"{LARGEST_VALUE:,} characters"
                    raise DataError(f"{self.path} holds a value of more than {size}, or is not JSON") from None
                if self._ended or not self._fill(more):
                    raise self._broken(error) from None
            except DataError as error:
                raise DataError(f"{self.path} {error}") from None
            except (RecursionError, ValueError) as error:
                raise DataError(f"{self.path} holds a value that cannot be read ({type(error).__name__})") from None
            else:
                # A number at the end of what was read may go on in what was not.
                if end < len(self._text) or self._ended:
                    self._at = end
                    return value
                self._fill(more)
            more *= 2

    def _broken(self, error: json.JSONDecodeError) -> DataError:
        near_end = error.pos >= len(self._text.rstrip()) - 1 or "Unterminated" in error.msg
        if near_end:
            return CutShortError(f"{self.path} is cut short: it ends inside a value", True)
        return DataError(f"{self.path} is not JSON ({error.msg} at {shown(self._text[error.pos : error.pos + 20])})")

    def members(self, *, once: bool = True) -> Iterator[str]:
        """The keys of the object that begins here; take each one's value before asking for the next.

        Args:
            once: refuse a key that came before; off where there may be millions of them.

        Raises:
            DataError: the object names a key twice, or is none.
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
        """Make sure nothing follows.

        Raises:
            DataError: something does.
        """
        if self.peek():
            near = shown(self._text[self._at : self._at + 20])
            raise DataError(f"{self.path} has text after its JSON value: {near}")


def json_lines(path: Path, advance: Callable[[int], object] = lambda _: None) -> Iterator[tuple[int, Any]]:
    """The values of a file with one JSON value per line, each with its line number from 1.

    Raises:
        DataError: the file is not UTF-8, or a line is not JSON.
    """
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
