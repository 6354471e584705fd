"""Mounts of this process and what it starts alone: what it sees of the file system, and what it can write to.

Foreign code that is planned sees the system's own folders, Python's, the compilers' and the few files that it is given.
Everything else is empty: home folders, other disks, the build cache and results, wherever they lie. A surrogate sees
all but what holds answers.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import pwd
import shutil
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import kbench

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 0x1, 0x2, 0x4, 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
IN_MEMORY = b"mode=0700,size=1g,nr_inodes=65536"
"""What a folder in memory may hold: compilers need less, and nobody else's disk gets full."""
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY, OPEN_TREE_CLONE, MOVE_MOUNT_FROM_DESCRIPTOR = 0x1, 0x1, 0x4
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, which are the same on every architecture we know."""
SYSTEM = frozenset(
    ("bin", "boot", "dev", "etc", "gnu", "lib", "lib32", "lib64", "libx32", "nix", "proc", "sbin", "sys", "usr")
)
"""Folders of the root that hold the system and no work of its users."""
SECRETS = (Path("/etc/shadow"), Path("/etc/gshadow"))
SHARED = (Path("/dev/shm"), Path("/dev/mqueue"))
"""Where processes leave memory and messages for others."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def _enter_private_namespace() -> ctypes.CDLL | None:
    """Have mounts of its own, which are seen nowhere else; the C library, or None where that is not permitted."""
    if platform.system() != "Linux":
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    private = libc.unshare(CLONE_NEWNS) == 0 and libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
    return libc if private else None


def freeze_files(writable: Sequence[Path]) -> bool:
    """Make everything read-only for this process but some folders; False where not permitted."""
    libc = _enter_private_namespace()
    if libc is None:
        return False
    places = [os.fsencode(folder) for folder in writable]
    if any(libc.mount(place, place, None, MS_BIND, None) != 0 for place in places):
        return False
    return _freeze(libc, writable)


def close_files(
    scratch: Path, needed: Iterable[Path], writable: Sequence[Path] = (), hidden: Sequence[Path] = ()
) -> bool:
    """Leave this process the system and what it needs, read-only but for some folders; False where not permitted.

    Args:
        scratch: the working folder: empty, in memory, and small.
        needed: files and folders outside the system's that can be read.
        writable: folders that can be read and written.
        hidden: what is empty even though it lies in something needed, or in the system's folders.
    """
    libc = _enter_private_namespace()
    if libc is None or not _put_in_memory(libc, scratch):
        return False
    links = {path: path.resolve() for path in needed}
    # All are opened before anything is covered.
    read_only = [(path, _clone(libc, path)) for path in outermost(links.values())]
    own = [(path, _clone(libc, path)) for path in (*writable, scratch)]
    tops = [path for path in Path("/").iterdir() if path.name not in SYSTEM and not path.is_symlink()]
    done = all(_cover(libc, path) for path in (*tops, *SHARED))
    done = done and all(_put_back(libc, path, tree) for path, tree in read_only)
    for path, target in links.items() if done else ():
        if not os.path.lexists(path) and target.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
    gpu_nodes = [path for path in Path("/dev").glob("nvidia*") if path.is_char_device()]
    done = done and all(_cover(libc, path) for path in (*SECRETS, *gpu_nodes, *hidden))
    done = done and all(_put_back(libc, path, tree) for path, tree in own)
    # The working directory was opened under the old mounts.
    os.chdir(scratch)
    return done and _freeze(libc, [*writable, scratch])


def conceal(
    hidden: Sequence[Path], protected: Sequence[Path], writable: Sequence[Path] = ()
) -> tuple[list[Path], list[Path]]:
    """In a private mount namespace, make files and folders empty, and everything read-only but some folders.

    Args:
        hidden: what is empty here.
        protected: folders that can only be read, though they lie in writable ones.
        writable: folders that can be written.

    Returns:
        The hidden ones that are not, and the folders that can be written although they should not be.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.getcwd()
    if libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return list(hidden), [Path("/"), *protected]
    # In this order: a folder that is mounted onto itself shows again what was hidden in it.
    own = [folder for folder in writable if _on_itself(libc, folder)]
    frozen = _set(libc, "/", AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY))
    for folder in own:
        _set(libc, str(folder), 0, _Attributes(clear=MOUNT_ATTR_RDONLY))
    changeable = [] if frozen else [Path("/")]
    for folder in protected:
        read_only = _Attributes(set=MOUNT_ATTR_RDONLY)
        if not (_on_itself(libc, folder) and _set(libc, str(folder), AT_RECURSIVE, read_only)):
            changeable.append(folder)
    for path in hidden:
        _cover(libc, path, MS_RDONLY)
    try:
        os.chdir(here)
    except OSError:
        os.chdir("/")
    return [path for path in hidden if not _is_empty(path)], changeable


def _on_itself(libc: ctypes.CDLL, folder: Path) -> bool:
    name = os.fsencode(folder)
    return bool(libc.mount(name, name, None, MS_BIND | MS_REC, None) == 0)


def _is_empty(path: Path) -> bool:
    try:
        return not os.listdir(path) if path.is_dir() else not path.exists() or path.samefile(os.devnull)
    except OSError:
        return not path.exists()


def _put_in_memory(libc: ctypes.CDLL, folder: Path) -> bool:
    name = os.fsencode(folder)
    if libc.mount(b"tmpfs", name, b"tmpfs", MS_NOSUID | MS_NODEV, IN_MEMORY) != 0:
        return False
    try:
        # A user that is not mapped in its namespace may mount it, and then own nothing in it.
        os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError:
        libc.umount2(name, MNT_DETACH)
        return False
    return True


def _clone(libc: ctypes.CDLL, path: Path) -> int:
    """A descriptor of what lies at a path with all that is mounted below it; negative where there is nothing."""
    flags = OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC
    return int(libc.syscall(OPEN_TREE, AT_FDCWD, os.fsencode(path), flags))


def _cover(libc: ctypes.CDLL, path: Path, flags: int = 0) -> bool:
    """Have nothing at a path: an empty folder or device in its place."""
    name = os.fsencode(path)
    if path.is_dir():
        return bool(libc.mount(b"tmpfs", name, b"tmpfs", MS_NOSUID | MS_NODEV | flags, b"mode=0755,size=1m") == 0)
    return not path.exists() or bool(libc.mount(b"/dev/null", name, None, MS_BIND, None) == 0)


def _put_back(libc: ctypes.CDLL, path: Path, tree: int) -> bool:
    if tree < 0:
        return True
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            folder = os.path.isdir(f"/proc/self/fd/{tree}")
            path.mkdir() if folder else path.touch()
        moved = libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(path), MOVE_MOUNT_FROM_DESCRIPTOR)
    finally:
        os.close(tree)
    return bool(moved == 0)


def _freeze(libc: ctypes.CDLL, writable: Sequence[Path]) -> bool:
    if not _set(libc, "/", AT_RECURSIVE, _Attributes(set=MOUNT_ATTR_RDONLY)):
        return False
    return all(_set(libc, str(folder), 0, _Attributes(clear=MOUNT_ATTR_RDONLY)) for folder in writable)


def keys_and_tokens(needed: Sequence[Path]) -> list[Path]:
    """Where a user's keys and tokens lie: whatever is hidden in the home folder, and the system's passwords.

    Args:
        needed: what must stay readable, besides Python's own folders.
    """
    named = [path.absolute() for path in (*what_python_needs(), *needed)]
    readable = [*named, *(path.resolve() for path in named)]
    secrets = list(SECRETS)
    with contextlib.suppress(OSError, KeyError):
        # Neither a user without an entry nor a home that cannot be listed has a place to look in.
        secrets += Path(pwd.getpwuid(os.getuid()).pw_dir).glob(".*")
    return [path for path in secrets if _can_be_covered(path, readable)]


def _can_be_covered(path: Path, known: Sequence[Path]) -> bool:
    try:
        return path.exists() and not any(one.is_relative_to(place) for one in known for place in (path, path.resolve()))
    except OSError:
        return False


@functools.cache
def what_python_needs() -> tuple[Path, ...]:
    """Where Python, its packages, compilers and loaded libraries lie, apart from the system's folders."""
    package = Path(kbench.__file__).parent
    tools = [shutil.which(name) for name in ("nvcc", "ptxas", "cc", "c++", "gcc", "g++", "ninja")]
    variables = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "CC")]
    names = [sys.prefix, sys.base_prefix, *sys.path, *(part for text in variables for part in text.split(os.pathsep))]
    with contextlib.suppress(OSError):
        loaded = (line.split(maxsplit=5)[5:] for line in Path("/proc/self/maps").read_text().splitlines())
        names += {os.path.dirname(name[0]) for name in loaded if name and ".so" in name[0]}
    # A compiler finds its parts beside the folder it is in.
    near_tools = [Path(tool).resolve().parent.parent for tool in tools if tool]
    # In a checkout, the package's folders are links to where they lie.
    places = [*(Path(name).absolute() for name in names if name), *near_tools, *package.iterdir()]
    outer = outermost(path.resolve() for path in places)
    # Links that lead into what is kept have to be made again.
    return (*outer, *(path for path in places if path != path.resolve() and not _is_systems(path)))


def outermost(paths: Iterable[Path]) -> list[Path]:
    """Those of some paths that are not the system's, without those that lie inside another."""
    outer: list[Path] = []
    for path in sorted(set(paths)):
        if not _is_systems(path) and not (outer and path.is_relative_to(outer[-1])):
            outer.append(path)
    return outer


def _is_systems(path: Path) -> bool:
    return len(path.parts) < 2 or path.parts[1] in SYSTEM


def _set(libc: ctypes.CDLL, path: str, flags: int, attributes: _Attributes) -> bool:
    size = ctypes.sizeof(attributes)
    status = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, ctypes.byref(attributes), size)
    return bool(status == 0)
