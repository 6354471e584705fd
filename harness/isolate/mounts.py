"""Mounts: make the whole file system read-only for this process, except a few folders."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Sequence
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
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


def freeze_files(writable: Sequence[Path], hidden: Sequence[Path] = ()) -> bool:
    """Enter a private mount namespace in which little can be written to; False where not permitted.

    Args:
        writable: the only folders that can be written to.
        hidden: device files that are covered by an empty one.
    """
    if platform.system() != "Linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return False
    # Only now, in a private namespace: anywhere else this would cover them for every process.
    places = [(b"/dev/null", path) for path in hidden] + [(str(folder).encode(), folder) for folder in writable]
    if any(libc.mount(source, str(path).encode(), None, MS_BIND, None) != 0 for source, path in places):
        return False
    if not _set(libc, "/", AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY)):
        return False
    thawed = all(_set(libc, str(folder), 0, _Attributes(clear=MOUNT_ATTR_RDONLY)) for folder in writable)
    # The working directory was opened under the old mounts.
    os.chdir(here)
    return thawed


def gpu_nodes() -> list[Path]:
    """The GPUs' device files."""
    return [path for path in Path("/dev").glob("nvidia*") if path.is_char_device()]


def _set(libc: ctypes.CDLL, path: str, flags: int, attributes: _Attributes) -> bool:
    size = ctypes.sizeof(attributes)
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), size)
    return bool(done == 0)
