"""Files and folders that are there whole or not at all: written aside, synced, and renamed into place."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from kbench.schemas import InfrastructureError, UserError

ENDING = ".part"
"""How the name of a file that is not in its place yet ends."""


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file; text as UTF-8."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its place when the block ends well; nothing changes when it does not."""
    with _aside(path) as (file, aside):
        yield file
        _finish(file)
        aside.replace(path)
    _sync_folder(path.parent)


def write_new(places: Iterator[Path], write: Callable[[IO[bytes]], object]) -> Path:
    """Let `write` fill a file aside, and rename it into the first place that is free; no file is ever replaced.

    Args:
        places: where the file may go, best first, all in one folder; there is always one more.
        write: fills the file.

    Returns:
        where the content is: a place that was free, or one that held the same bytes already.
    """
    path = next(places)
    with _aside(path) as (file, aside):
        write(file)
        _finish(file)
        while path.exists() and not _same_bytes(aside, path):
            path = next(places)
        if not path.exists():
            aside.replace(path)
    _sync_folder(path.parent)
    return path


def replace_together(folder: Path, files: Mapping[str, bytes | None]) -> None:
    """Put files into a folder, all or none.

    All are written aside before the first takes its place, so a full disk is met while nothing has changed. They take
    their places in the order given; when one cannot, those before it become what they were.

    Args:
        folder: the folder.
        files: content by relative path; None removes the file.
    """
    before = {name: _content(folder / name) for name in files}
    staged: dict[str, Path] = {}
    moved: list[str] = []
    with ExitStack() as stack:
        for name, data in files.items():
            if data is not None:
                (folder / name).parent.mkdir(exist_ok=True)
                file, staged[name] = stack.enter_context(_aside(folder / name))
                file.write(data)
                _finish(file)
        try:
            for name in files:
                moved.append(name)
                _take_place(folder / name, staged.get(name))
            for parent in sorted({(folder / name).parent for name in staged}):
                _sync_folder(parent)
        except BaseException:
            for name in reversed(moved):
                _restore(folder / name, before[name])
            raise


@contextmanager
def whole_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to build in that becomes `out` when all went well, and vanishes otherwise.

    Args:
        out: the folder to make.
        replace: whether what is there may be replaced.

    Raises:
        UserError: `out` holds something already, or its parent cannot be written.
        InfrastructureError: the disk is full or failing.
    """
    if out.exists() and not replace and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {str(out)!r} exists and is not an empty folder; choose another or remove it")
    aside = out.with_name(f".{out.name}.{os.getpid()}.part")
    try:
        aside.mkdir(parents=True)
        yield aside
        if replace:
            shutil.rmtree(out)
        elif out.exists():
            out.rmdir()
        aside.replace(out)
    except OSError as error:
        reason = error.strerror or str(error)
        raise InfrastructureError(f"writing to {str(out)!r} failed: {reason}; nothing was kept") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _same_bytes(*paths: Path) -> bool:
    return len({path.stat().st_size for path in paths}) == 1 and len({_digest(path) for path in paths}) == 1


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _take_place(path: Path, aside: Path | None) -> None:
    if aside is None:
        path.unlink(missing_ok=True)
    else:
        aside.replace(path)


def _restore(path: Path, data: bytes | None) -> None:
    """Make a file what it was; one that cannot be is left, because what stands there is whole."""
    with suppress(OSError):
        if data is None:
            path.unlink(missing_ok=True)
        elif _content(path) != data:
            write_atomically(path, data)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@contextmanager
def _aside(path: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """A file beside its place, gone after the block unless it was moved."""
    # Processes that write one file at the same time must not write into each other's.
    aside = path.with_name(f".{path.name}.{os.getpid()}{ENDING}")
    with aside.open("wb") as file:
        try:
            yield file, aside
        finally:
            aside.unlink(missing_ok=True)


def _finish(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
