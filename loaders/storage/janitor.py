"""The janitor: a small process that outlives this one and ends, or removes, what it would leave behind.

However a command ends, by a signal that nobody can catch included, the janitor sees its pipe close. It then kills the
process groups it was told of and removes their files.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

PROGRAM = """
import fcntl, os, shutil, signal, sys, time
for name in ("SIGINT", "SIGTERM", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
told = {}
for line in sys.stdin.buffer:
    # Counted: a folder may be watched by whoever made it and by whoever fills it.
    count = told.pop(line[1:-1], 0) + (1 if line[:1] == b"+" else -1)
    if count > 0:
        told[line[1:-1]] = count
groups = [int(one[1:]) for one in told if one[:1] == b"g"]
paths = [one[1:] for one in told if one[:1] == b"p"]
for group in groups:
    try:
        os.killpg(group, signal.SIGKILL)
    except OSError:
        pass

def has_ended(process):
    try:
        return open("/proc/%d/stat" % process).read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

# What they started ends when they have, and may write until then: a path is gone when it has stayed away for a while.
# Tries are counted, not seconds: on a crowded machine others get as few of those.
for _ in range(200):
    if all(map(has_ended, groups)):
        break
    time.sleep(0.01)
def is_free(handle):
    # A process that ends closes its files one by one, our pipe maybe first, and is our parent until all are closed. Who
    # holds one for longer is another.
    tries = 50
    while tries:
        tries -= os.getppid() != int(sys.argv[1])
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02)
    return False

def remove(path):
    # Whoever runs the same command again may hold it by now: then it is theirs.
    if not os.path.isdir(path) or os.path.islink(path):
        os.unlink(path)
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        if is_free(handle):
            shutil.rmtree(path, ignore_errors=True)
        else:
            paths.remove(path)
    finally:
        os.close(handle)

away = 0
for _ in range(20):
    if away == (4 if groups else 1):
        break
    left = [path for path in paths if os.path.lexists(path)]
    away = 0 if left else away + 1
    for path in left:
        try:
            remove(path)
        except RecursionError:
            os.spawnlp(os.P_WAIT, "rm", "rm", "-rf", "--", path)
        except OSError:
            pass
    time.sleep(0.05 if groups else 0)
"""
_lock = threading.Lock()
_started: tuple[int, subprocess.Popen[bytes]] | None = None
"""The janitor and the process it belongs to: a fork has one of its own."""


def watch_group(process: int) -> None:
    """Have a process group killed when this process ends, however it does."""
    _tell(b"+g%d\n" % process)


def watch_path(path: Path) -> None:
    """Have a file or folder removed when this process ends, however it does."""
    _tell(b"+p" + os.fsencode(path.absolute()) + b"\n")


def watch_empty(path: Path) -> None:
    """Remove a folder or file when this process ends, unless it is killed or something is in it then."""
    atexit.register(_remove_empty, path.absolute(), os.getpid())


def _remove_empty(path: Path, process: int) -> None:
    with contextlib.suppress(OSError):
        if process != os.getpid():  # a fork, which is not who made it
            return
        if path.is_dir():
            path.rmdir()
        elif not path.stat().st_size:
            path.unlink()


def make_folder(path: Path) -> None:
    """Make a folder and its parents; those that hold nothing when this process ends go again."""
    # What is registered last is removed first: inner folders.
    for one in reversed(missing(path)):
        watch_empty(one)
    path.mkdir(parents=True, exist_ok=True)


def missing(path: Path) -> list[Path]:
    """A folder and its parents, as far as they are not there; inner ones first."""
    return [one for one in (path, *path.parents) if not one.exists()]


def forget_group(process: int) -> None:
    """The group has ended."""
    _tell(b"-g%d\n" % process)


def forget_path(path: Path) -> None:
    """The file or folder is gone, or is to stay."""
    _tell(b"-p" + os.fsencode(path.absolute()) + b"\n")


def end_group(process: int) -> None:
    """Kill a process group that was watched."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)
    forget_group(process)


def _tell(line: bytes) -> None:
    global _started
    with _lock, contextlib.suppress(OSError):
        if _started is None or _started[0] != os.getpid() or _started[1].poll() is not None:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", PROGRAM, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            _started = (os.getpid(), process)
        pipe = _started[1].stdin
        assert pipe is not None
        pipe.write(line)
        pipe.flush()


@atexit.register
def _dismiss() -> None:
    """A command that ends well waits until the janitor has gone too."""
    if _started is not None and _started[0] == os.getpid():
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            _started[1].communicate(timeout=5.0)
