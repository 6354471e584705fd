"""Lock: one process at a time changes a folder that others may change too.

The folder itself is locked, so nothing is left behind and the lock ends with its process. A folder that is replaced
while someone waits for it is another one: its lock is taken anew.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kbench.loaders.storage import janitor
from kbench.schemas import UserError

PAUSE_S = 0.02
LEAST_TRIES = 50
"""How often a lock is tried at least: what a killed process held, its janitor holds for a moment to clean up. Tries are
counted, not seconds: on a crowded machine the janitor gets as few of those."""
_held: set[tuple[int, int, Path]] = set()
"""Process, thread and folder: whoever holds a folder may take it again, in a function that it calls."""


@contextmanager
def held(folder: Path, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold a folder against everyone else; one that is missing is made, and goes again if nothing came of it."""
    target = Path(os.path.realpath(folder))
    key = (os.getpid(), threading.get_ident(), target)
    if key in _held:
        yield
        return
    new_folders = janitor.missing(target)

    def opened() -> int:
        target.mkdir(parents=True, exist_ok=True)
        return os.open(target, os.O_RDONLY | os.O_DIRECTORY)

    handle = locked(target, opened, wait_s)
    if handle is None:
        raise UserError(f"{str(target)!r} is being changed by another process; wait for it to end")
    _held.add(key)
    try:
        yield
    finally:
        _held.discard(key)
        with suppress(OSError):  # it holds something now
            for path in new_folders:
                path.rmdir()
        os.close(handle)


def locked(path: Path, opened: Callable[[], int], wait_s: float = 0.0) -> int | None:
    """A descriptor of a file or folder that is locked against everyone else; None where another keeps it."""
    missing = None
    for _ in range(max(LEAST_TRIES, round(wait_s / PAUSE_S))):
        try:
            handle = opened()
            if _lock(handle, path):
                return handle
            os.close(handle)
            missing = None
        except FileNotFoundError as error:  # another process has replaced it, or removed it because it was empty
            missing = error
        time.sleep(PAUSE_S)
    if missing is not None:
        raise missing
    return None


def in_use(path: Path) -> bool:
    """Whether a process keeps a file or folder locked now."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _lock(handle: int, path: Path) -> bool:
    """Lock an opened file or folder, unless another has it, or has put something else in its place."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(handle), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
    except BaseException:
        os.close(handle)
        raise
