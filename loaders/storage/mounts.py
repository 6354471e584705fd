"""Mounts of this process and what it starts alone: some files are empty for it, and others can only be read."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import pwd
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
IN_MEMORY = b"mode=0700,size=1g,nr_inodes=65536"
"""What a folder in memory may hold: compilers need less, and nobody else's disk gets full."""
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 0x1
MOUNT_SETATTR = 442
"""The system call's number, which is the same on every architecture we know."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def freeze_files(
    writable: Sequence[Path],
    hidden: Sequence[Path] = (),
    private: Sequence[Path] = (),
    in_memory: Sequence[Path] = (),
) -> bool:
    """Enter a private mount namespace in which little can be written to; False where not permitted.

    Args:
        writable: the only folders that can be written to, but for those in memory.
        hidden: device files that are covered by an empty one.
        private: files and folders that are empty here, as far as the system lets them be covered.
        in_memory: folders that are empty here, can be written to, and hold little; writable as they are where the
            system does not permit that.
    """
    if platform.system() != "Linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    try:
        # Only now, in a private namespace: anywhere else this would cover them for every process.
        on_disk = [*writable, *(folder for folder in in_memory if not _put_in_memory(libc, folder))]
        return _cover(libc, on_disk, hidden, private) and _freeze(libc, [*writable, *in_memory])
    finally:
        # The working directory was opened under the old mounts.
        os.chdir(here)


def conceal(hidden: Sequence[Path], protected: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """In a private mount namespace, make files and folders empty, and folders read-only.

    Args:
        hidden: what is empty here.
        protected: folders that can only be read.

    Returns:
        The hidden and the protected ones of which that is not so afterwards.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()
    if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return list(hidden), list(protected)
    # In this order: a folder that is mounted onto itself shows again what was hidden in it.
    writable = [folder for folder in protected if not _protect(libc, folder)]
    for path in hidden:
        _empty(libc, path)
    try:
        os.chdir(here)
    except OSError:
        os.chdir("/")
    return [path for path in hidden if not _is_empty(path)], writable


def _protect(libc: ctypes.CDLL, folder: Path) -> bool:
    name = os.fsencode(folder)
    if libc.mount(name, name, None, MS_BIND | MS_REC, None) != 0:
        return False
    return _set(libc, str(folder), AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY))


def _empty(libc: ctypes.CDLL, path: Path) -> None:
    if path.is_dir():
        libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", MS_RDONLY, b"size=4k")
    else:
        libc.mount(b"/dev/null", os.fsencode(path), None, MS_BIND, None)


def _is_empty(path: Path) -> bool:
    try:
        return not os.listdir(path) if path.is_dir() else not path.is_file() and not path.is_block_device()
    except OSError:
        return not path.exists()


def _put_in_memory(libc: ctypes.CDLL, folder: Path) -> bool:
    name = str(folder).encode()
    if libc.mount(b"tmpfs", name, b"tmpfs", MS_NOSUID | MS_NODEV, IN_MEMORY) != 0:
        return False
    try:
        # A user that is not mapped in its namespace may mount it, and then own nothing in it.
        os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError:
        libc.umount2(name, MNT_DETACH)
        return False
    return True


def _cover(libc: ctypes.CDLL, writable: Sequence[Path], hidden: Sequence[Path], private: Sequence[Path]) -> bool:
    places = [(b"/dev/null", path) for path in hidden] + [(str(folder).encode(), folder) for folder in writable]
    if any(libc.mount(source, str(path).encode(), None, MS_BIND, None) != 0 for source, path in places):
        return False
    for path in private:
        _empty(libc, path)
    return True


def _freeze(libc: ctypes.CDLL, writable: Sequence[Path]) -> bool:
    if not _set(libc, "/", AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY)):
        return False
    return all(_set(libc, str(folder), 0, _Attributes(clear=MOUNT_ATTR_RDONLY)) for folder in writable)


def keys_and_tokens(needed: Sequence[Path]) -> list[Path]:
    """Where a user's keys and tokens lie: whatever is hidden in the home folder, and the system's passwords.

    Args:
        needed: what must stay readable, besides Python's own folders.
    """
    tools = [shutil.which(name) for name in ("nvcc", "ptxas", "cc", "c++", "gcc", "g++", "ninja")]
    paths = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CC")]
    also = [part for path in (*tools, *paths) for part in (path or "").split(os.pathsep) if part]
    named = [path.absolute() for path in (*map(Path, (sys.prefix, sys.base_prefix, *sys.path, *also)), *needed)]
    known = [*named, *(path.resolve() for path in named)]
    found = [Path("/etc/shadow"), Path("/etc/gshadow")]
    with contextlib.suppress(OSError, KeyError):
        # Neither a user without an entry nor a home that cannot be listed has a place to look in.
        found += Path(pwd.getpwuid(os.getuid()).pw_dir).glob(".*")
    return [path for path in found if _can_be_covered(path, known)]


def _can_be_covered(path: Path, known: Sequence[Path]) -> bool:
    try:
        return path.exists() and not any(one.is_relative_to(place) for one in known for place in (path, path.resolve()))
    except OSError:
        return False


def gpu_nodes() -> list[Path]:
    """The GPUs' device files."""
    return [path for path in Path("/dev").glob("nvidia*") if path.is_char_device()]


def _set(libc: ctypes.CDLL, path: str, flags: int, attributes: _Attributes) -> bool:
    size = ctypes.sizeof(attributes)
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), size)
    return bool(done == 0)
