"""The user's cache folder, and temporary ones of which nothing stays behind, however the process ends."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kbench.loaders.storage import janitor

CHOSEN_BY = ("TMPDIR", "TEMP", "TMP")
"""Variables that name the folder of temporary files, in the order in which `tempfile` reads them."""


def settle_temporary_folder() -> None:
    """Choose the folder of temporary files that `tempfile` would, without leaving a file there.

    `tempfile` tries a folder out with a file that has a name, when it is first asked; importing torch asks. A process
    that is killed at that moment leaves the file, and nobody knows its name. This tries it with one that has none.
    Where that is not possible, `tempfile` is left to search.
    """
    unnamed = getattr(os, "O_TMPFILE", None)
    if tempfile.tempdir is not None or unnamed is None:
        return
    folder = next(filter(None, map(os.environ.get, CHOSEN_BY)), "/tmp")
    with contextlib.suppress(OSError):
        file = os.open(folder, unnamed | os.O_WRONLY, 0o600)
        try:
            os.write(file, b"tried")
        finally:
            os.close(file)
        tempfile.tempdir = os.path.abspath(folder)


def make_folder(prefix: str = "kbench-") -> Path:
    """A new folder of this process alone; the janitor removes it unless `remove_folder` does."""
    path = Path(tempfile.gettempdir()).absolute() / f"{prefix}{secrets.token_hex(8)}"
    # Before it is there, so that there is no moment at which nobody would remove it.
    janitor.watch_path(path)
    path.mkdir(mode=0o700)
    return path


def remove_folder(path: Path) -> None:
    """Remove a folder that `make_folder` made."""
    remove_tree(path)
    janitor.forget_path(path)


def remove_tree(path: Path) -> None:
    """Remove a folder and all in it, whatever foreign code left there; what cannot be removed stays."""
    # One level of folders takes a call and a descriptor, and there may be more levels than either.
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        with contextlib.suppress(OSError):
            quiet = subprocess.DEVNULL
            subprocess.run(["rm", "-rf", "--", path], check=False, stdin=quiet, stdout=quiet, stderr=quiet)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder for as long as the context lasts."""
    path = make_folder()
    try:
        yield path
    finally:
        remove_folder(path)


def cache_folder() -> Path:
    """Where builds and what follows from a user's file are kept: $KBENCH_CACHE, or the user's cache folder."""
    folder = os.environ.get("KBENCH_CACHE")
    if folder:
        return Path(folder)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "kbench"
