"""Files and folders that are there whole or not at all: written aside, synced, and renamed into place."""

from __future__ import annotations

import ctypes
import errno
import glob
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from kbench.loaders.storage import janitor
from kbench.loaders.storage.lock import held
from kbench.schemas import InfrastructureError, UserError

if TYPE_CHECKING:
    import pyarrow as pa

ENDING = ".part"
"""How the name of a file that is not in its place yet ends."""
WAIT_S = 30.0
"""How long files wait for others that are put into the same folder, which takes a second or less."""
AT_FDCWD, RENAME_EXCHANGE = -100, 2
"""Arguments of Linux's renameat2: paths as they are, and each gets the other's name."""


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file; text as UTF-8."""
    with replacing(path) as file:
        file.write(data.encode() if isinstance(data, str) else data)


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes its place when the block ends well; nothing changes when it does not."""
    if path.is_symlink():
        path = Path(os.path.realpath(path))  # /dev/stdout stays a link
    if path.exists() and not path.is_file():
        raise UserError(f"path {str(path)!r} is a folder, device or pipe; name a regular file")
    with _aside(path) as (file, aside):
        yield file
        _finish(file)
        aside.replace(path)
    _sync(path.parent)


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
        while path.exists() and file_sha256(aside) != file_sha256(path):
            path = next(places)
        if not path.exists():
            aside.replace(path)
    _sync(path.parent)
    return path


Content = bytes | Callable[[], bytes] | None
"""Of a file: its bytes, or what makes them when they are written, or None where there is to be no file."""


def replace_together(folder: Path, files: Mapping[str, Content]) -> None:
    """Put files into a folder, all or none, whenever the process is killed.

    A copy of the folder is made beside it, of links to its files; the new files go there, and the two folders are
    exchanged in one step.

    Raises:
        UserError: another process is changing the folder, and takes long.
        OSError: the disk is full or does not let itself be written; nothing has changed.
    """
    target = Path(os.path.realpath(folder))
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    # Whoever replaces the folder meanwhile would lose these files, or these theirs.
    with held(target, wait_s=WAIT_S):
        if Path.cwd().is_relative_to(target):
            # Whoever works inside a folder would find it gone.
            replace_in_order(target, files)
            return
        with _folder_aside(target) as aside:
            with suppress(FileNotFoundError):  # an empty one goes with the janitor of a process that was killed
                leftovers = shutil.ignore_patterns(f".*{ENDING}")
                shutil.copytree(target, aside, symlinks=True, copy_function=_link, dirs_exist_ok=True, ignore=leftovers)
            for name, data in files.items():
                (aside / name).unlink(missing_ok=True)  # never written through: it may be a link to the file in place
                if data is not None:
                    (aside / name).parent.mkdir(parents=True, exist_ok=True)
                    with (aside / name).open("wb") as file:
                        file.write(data() if callable(data) else data)
                        _finish(file)
            _exchange(aside, target)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without links
        shutil.copy2(source, target, follow_symlinks=False)


def replace_in_order(folder: Path, files: Mapping[str, Content]) -> None:
    """Put files into a folder one by one, in an order whose every beginning is a sound state for its readers.

    All are written aside before the first takes its place, so a full disk is met while nothing has changed. They take
    their places in the order given; when one cannot, those before it become what they were.
    """
    before = {name: _content(folder / name) for name in files}
    staged: dict[str, Path] = {}
    moved: list[str] = []
    with ExitStack() as stack:
        for name, data in files.items():
            if data is not None:
                (folder / name).parent.mkdir(exist_ok=True)
                file, staged[name] = stack.enter_context(_aside(folder / name))
                file.write(data() if callable(data) else data)
                _finish(file)
        try:
            for name in files:
                moved.append(name)
                if name in staged:
                    staged[name].replace(folder / name)
                else:
                    (folder / name).unlink(missing_ok=True)
            for parent in sorted({(folder / name).parent for name in staged}):
                _sync(parent)
        except BaseException:
            for name in reversed(moved):
                _restore(folder / name, before[name])
            raise


@contextmanager
def whole_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to build in that becomes `out` when all went well, and vanishes otherwise."""
    if out.exists() and not replace and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"--out {str(out)!r} exists and is not an empty folder; choose another or remove it")
    try:
        with held(out), _folder_aside(out) as aside:
            yield aside
            _exchange(aside, out, replace=replace)
    except OSError as error:
        if error.errno == errno.ENOTEMPTY:  # another process was faster
            raise UserError(f"--out {str(out)!r} exists now and is not an empty folder; choose another") from None
        reason = error.strerror or str(error)
        raise InfrastructureError(f"writing to {str(out)!r} failed: {reason}; nothing was kept") from error


@contextmanager
def _folder_aside(out: Path) -> Iterator[Path]:
    """An empty folder beside a place, gone after the block unless it was moved; what it was exchanged with goes too."""
    if out.exists() and not out.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(out)
    aside = out.with_name(f".{out.name}.{os.getpid()}{ENDING}")
    janitor.watch_path(aside)
    try:
        aside.mkdir()
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        janitor.forget_path(aside)


def remove_leftovers(path: Path) -> None:
    """Remove what processes that were killed left beside a place when they were about to write it."""
    for item in path.parent.glob(f".{glob.escape(path.name)}.*{ENDING}"):
        number = item.name.removeprefix(f".{path.name}.").removesuffix(ENDING)
        if not number.isdecimal():
            continue
        try:
            os.kill(int(number), 0)
        except PermissionError:  # alive, and another user's
            continue
        except (ProcessLookupError, OverflowError):
            with suppress(OSError):
                shutil.rmtree(item) if item.is_dir() and not item.is_symlink() else item.unlink()


def _exchange(aside: Path, out: Path, *, replace: bool = True) -> None:
    """Put a folder in the place of another, which is then where the first was, in one step; or of an empty one."""
    for folder, _, files in os.walk(aside):
        for name in files:
            _sync(Path(folder) / name)
        _sync(Path(folder))
    if not replace or not out.exists():
        aside.rename(out)
    elif not _renamed_at_once(aside, out):
        # A file system that cannot exchange: for a moment there is no folder, and what was there is beside it.
        kept = aside.with_name(f"{aside.name.removesuffix(ENDING)}.old{ENDING}")
        out.rename(kept)
        try:
            aside.rename(out)
        except OSError:
            kept.rename(out)
            raise
        shutil.rmtree(kept, ignore_errors=True)
    _sync(out.parent)


def _renamed_at_once(one: Path, other: Path) -> bool:
    """Exchange two paths; False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    if ctypes.get_errno() in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(other))


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    remove_leftovers(path)
    aside = path.with_name(f".{path.name}.{os.getpid()}{ENDING}")
    try:
        with aside.open("wb") as file:
            try:
                yield file, aside
            finally:
                aside.unlink(missing_ok=True)
    except OSError as error:
        # Writing to a full disk raises without a name, opening with one that nobody gave.
        error.filename = str(path) if error.filename in (None, str(aside)) else error.filename
        raise


def _finish(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())
    file.close()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def parquet_bytes(table: pa.Table) -> bytes:
    """A table as the content of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
