"""Sandbox: what a worker gives up before it loads a kernel."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import tempfile
from collections.abc import Collection
from pathlib import Path

from kbench.benchmark.problems.registry import USER_FILES

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_PRIVATE_ALL = (1 << 18) | (1 << 14)
"""MS_PRIVATE and MS_REC: what is mounted here is seen nowhere else."""
LOG_NAME = "stderr.txt"
"""A worker's log in its folder."""
OPEN_FILES = 1024
FILE_BYTES = 256 << 20
HOST_BYTES = 48 << 30
"""Address space of a worker without a GPU; a CUDA context alone reserves more, so GPU workers have no such limit."""


def enter(scratch: Path, *, gpu: bool) -> list[str]:
    """Apply every restriction this system permits.

    Args:
        scratch: the worker's private folder, which becomes its working directory.
        gpu: whether the worker will make a CUDA context.

    Returns:
        The names of the restrictions in force, such as ["netns", "ipcns", "rlimit", "scratch"].
    """
    applied = ["pidns"] if os.getpid() == 1 else []
    applied += _leave_others()
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_NOFILE: OPEN_FILES, resource.RLIMIT_FSIZE: FILE_BYTES}
    if not gpu:
        limits[resource.RLIMIT_AS] = HOST_BYTES
    for kind, limit in limits.items():
        _, hard = resource.getrlimit(kind)
        value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(kind, (value, value))
    applied.append("rlimit")
    scratch.mkdir(parents=True, exist_ok=True)
    os.chdir(scratch)
    os.environ["HOME"] = os.environ["TMPDIR"] = str(scratch)
    # What was imported before the fork may have asked for the folder of temporary files, which is kept.
    tempfile.tempdir = None
    applied.append("scratch")
    return applied


def _leave_others() -> list[str]:
    """Have no network, and none of the system's shared memory and message queues, which outlive who made them."""
    for flags, names in ((CLONE_NEWNET | CLONE_NEWIPC, ["netns", "ipcns"]), (CLONE_NEWNET, ["netns"])):
        if _unshare(flags):
            return names
    return []


def _unshare(flags: int) -> bool:
    """Enter new namespaces, as a user of its own where only such a one may."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) == 0:
        return True
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWUSER | flags) != 0:
        return False
    # A user that is not mapped in there has no home folder and can own no file of a new mount.
    ids = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    with contextlib.suppress(OSError):
        for name, text in ids.items():
            Path(f"/proc/self/{name}").write_text(text)
    return True


def be_nice(niceness: int, processors: Collection[int]) -> None:
    """Yield the processor to others, and use these alone, or any if there are none."""
    # Those may have been taken from this machine's container meanwhile.
    with contextlib.suppress(OSError):
        if processors:
            os.sched_setaffinity(0, processors)
    os.nice(niceness)
    # Where sessions share the processor as groups, the above counts within this worker's own session alone.
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(niceness))


PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, CAPABILITIES, CAPABILITY_VERSION = 24, 38, 64, 0x20080522


def drop_capabilities() -> bool:
    """Give up every privilege of the superuser for good: mounts cannot be undone, limits cannot be raised."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for number in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    return bool(libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())) == 0)


PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Have the kernel end this process when the one that forked it ends, whatever it is doing."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def process_namespace_works() -> bool:
    """Whether this system permits `enter_process_namespace`; tried in a child, because half of it cannot be undone."""
    child = os.fork()
    if child == 0:
        os._exit(0 if enter_process_namespace() else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def enter_process_namespace() -> bool:
    """Continue in a child that is the first process of a namespace: it cannot see or signal anything outside.

    The namespace has a /proc of its own: the CUDA driver looks itself up there by its process number.
    When the child ends, everything it started ends with it. The process that called this waits and ends the same way.
    Returns False, in the same process, where namespaces are not permitted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWPID | CLONE_NEWNS) != 0:
        return False
    child = os.fork()
    if child == 0:
        die_with_parent()
        private = libc.mount(None, b"/", None, MS_PRIVATE_ALL, None) == 0
        if not private or libc.mount(b"proc", b"/proc", b"proc", 0, None) != 0:
            os._exit(1)
        return True
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def limit_growth(extra_bytes: int) -> None:
    """Let this process's own memory grow by this much and no more; called once its device context exists."""
    with open("/proc/self/status") as status:
        used = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (used + extra_bytes, used + extra_bytes))


def close_inherited(keep: int) -> None:
    """Close every descriptor above the standard three except one."""
    os.closerange(3, keep)
    os.closerange(keep + 1, OPEN_FILES)


KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "LANG", "LC_ALL", "CUDA_DEVICE_ORDER",
                  "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "CC",
                  USER_FILES)  # fmt: skip
"""What a worker needs of its parent's environment to find the driver, a compiler and a user's problem; nothing else is
passed on."""


def environment() -> dict[str, str]:
    """The whole environment of a worker."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {
        "TRITON_STORE_BINARY_ONLY": "1",
        # Both values are legal defaults depending on the version; pinned so that a cache key means one thing.
        "TRITON_DEFAULT_FP_FUSION": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
