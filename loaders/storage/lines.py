"""Lines: an append-only file of JSON lines that survives the death of its writer.

Killing the writer at any byte loses at most the line being written: a torn last line is left out when the file is read
and cut off when it is opened for writing. Every line carries a short hash of itself, `"sum"`, so that damage is refused
with its line and offset. Files of earlier versions have no hashes and are read as they are.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from kbench.loaders.storage import janitor
from kbench.loaders.storage.lock import locked
from kbench.schemas import DataError, InfrastructureError, Record, UserError, from_dict

T = TypeVar("T")
R = TypeVar("R", bound=Record)
Parse = Callable[[str, str], T]
"""parse(text, where) -> what a line says; a DataError means that it is damaged."""

SEAL = re.compile(rb',"sum":"([0-9a-f]{12})"}')
"""The hash of a line, at its end."""
SEAL_BYTES = len(b',"sum":"') + 12 + len(b'"}')


def sealed(line: str) -> bytes:
    """A line that holds a JSON object, with its hash as the object's last field."""
    data = line.rstrip("\n").encode()
    return data[:-1] + b',"sum":"' + _hash(data) + b'"}\n'


def _hash(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=6).hexdigest().encode()


def _unsealed(line: bytes, where: str) -> bytes | None:
    """The line without its hash; None when it has none."""
    tail = SEAL.fullmatch(line.rstrip(b"\n"), max(0, len(line.rstrip(b"\n")) - SEAL_BYTES))
    if tail is None:
        return None
    data = line[: tail.start()] + b"}"
    if _hash(data) != tail[1]:
        raise DataError(f"{where} does not have the hash it states; the file is damaged: restore it from a copy")
    return data


def parse_json(text: str, where: str) -> Any:
    """A line's JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({error}); the file is damaged: restore it from a copy") from None


def raw_lines(path: Path) -> Iterator[bytes]:
    """Every line of a file, decompressed where its name says that it is compressed."""
    try:
        with lzma.open(path, format=lzma.FORMAT_XZ) if path.suffix == ".xz" else path.open("rb") as stream:
            yield from stream
    except (EOFError, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be decompressed ({error}); it is damaged: restore it from a copy") from None


def read_lines(path: Path, parse: Parse[T]) -> Iterator[tuple[T, int]]:
    """What each line says, with the offset just after it; stops quietly before a torn last line.

    Raises:
        DataError: names file, line and offset of what is damaged.
    """
    seals = False

    def parsed(line: bytes, number: int, offset: int) -> T:
        """What a line says; once one has a hash, all after it must have one."""
        nonlocal seals
        where = f"{path}: line {number} at byte {offset}"
        try:
            line.decode()
        except UnicodeDecodeError:
            raise DataError(f"{where} is not UTF-8; the file is damaged: restore it from a copy") from None
        data = _unsealed(line, where)
        if data is None and seals:
            raise DataError(f"{where} has no hash; the file is damaged: restore it from a copy")
        seals = data is not None
        return parse((line if data is None else data).decode(), where)

    offset = 0
    waiting: tuple[bytes, int, int] | None = None
    for number, line in enumerate(raw_lines(path), 1):
        if waiting is not None:
            yield parsed(*waiting), offset
        waiting = (line, number, offset)
        offset += len(line)
    if waiting is None:
        return
    try:
        last = parsed(*waiting)
    except DataError:
        if _is_torn(waiting[0]):
            return
        raise
    if waiting[0].endswith(b"\n"):
        yield last, offset


def read_records(path: Path, record: type[R]) -> list[R]:
    """The records of a file that holds one per line."""
    return [one for one, _ in read_lines(path, lambda text, where: from_dict(record, parse_json(text, where), where))]


def _is_torn(line: bytes) -> bool:
    """Whether a line may be what reached the disk of one: it lacks the end, or is what a failing disk leaves."""
    if line.endswith(b"\n"):
        return not (line.startswith(b"{") or line.endswith(b"}\n"))
    return SEAL.search(line) is None


class LineWriter:
    """Appends lines to a file; one writer at a time."""

    def __init__(self, path: Path, parse: Parse[Any]) -> None:
        """Open a file, make it where there is none, and cut off a damaged last line.

        A file that gets no line goes again, with the folders that were made for it.
        """
        self._path, self._made = path, janitor.missing(path.parent)
        try:
            descriptor = locked(path, self._opened)
        except OSError as error:
            raise UserError(f"{path} cannot be written ({error.strerror}); choose another folder for --out") from None
        if descriptor is None:
            raise UserError(f"{path} is being written by another run; wait for it or choose another --out")
        self._descriptor = descriptor
        try:
            good = 0
            for _, end in read_lines(path, parse):
                good = end
            os.ftruncate(self._descriptor, good)
            os.lseek(self._descriptor, good, os.SEEK_SET)
        except BaseException:
            self.close()
            raise

    def _opened(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)

    def append(self, lines: Iterable[str]) -> None:
        """Write a batch, each line with its hash, and wait until it is on disk."""
        data = memoryview(b"".join(map(sealed, lines)))
        if not data:
            return
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
        except OSError as error:
            raise InfrastructureError(
                f"{self._path} cannot be written ({error.strerror or error}); fix that and run the same command "
                "again: it goes on from what is there"
            ) from error

    def close(self) -> None:
        """Release the file; one without a line goes, while nobody else can have it, and so do its folders."""
        if not os.fstat(self._descriptor).st_size:
            with suppress(OSError):  # a folder holds something else
                self._path.unlink()
                for folder in self._made:
                    folder.rmdir()
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
