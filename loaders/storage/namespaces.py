"""Namespaces and privileges: what a process gives up before it runs foreign code."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from pathlib import Path

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
MS_PRIVATE_ALL = (1 << 18) | (1 << 14)
"""MS_PRIVATE and MS_REC: what is mounted here is seen nowhere else."""
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITIES, CAPABILITY_VERSION = 64, 0x20080522
OWN_PID_MAX = (6, 14)
"""Version of Linux from which a namespace has a bound on its process numbers of its own."""
KILLED_BY = 128
"""Exit codes above this name the signal that ended a process, as shells have it."""


def unshare(flags: int) -> bool:
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


def drop_capabilities() -> bool:
    """Give up every privilege of the superuser for good: mounts cannot be undone, limits cannot be raised."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for number in range(CAPABILITIES):
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    return bool(libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())) == 0)


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


def enter_process_namespace(most: int | None = None) -> bool:
    """Continue in a child that is the first process of a namespace: it cannot see or signal anything outside.

    The namespace has a /proc of its own: the CUDA driver looks itself up there by its process number.
    `most` bounds its processes and threads where the system can, so that one that doubles itself starves nobody.
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
        if most is not None:
            _bound_processes(most)
        return True
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _bound_processes(most: int) -> None:
    # On older systems the file is not the namespace's own, and writing it would bound the whole machine.
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in os.uname().release.split(".")[:2])
    if (major, minor) >= OWN_PID_MAX:
        with contextlib.suppress(OSError):
            Path("/proc/sys/kernel/pid_max").write_text(str(most))


def leave_first_process() -> None:
    """Continue in a child of the namespace's first process, which nothing but its own end can end.

    The kernel keeps signals of its namespace from the first process, also those that end a program that fails.
    """
    child = os.fork()
    if child == 0:
        die_with_parent()
        return
    # Whoever waits for the other end of a connection must not wait for this process.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    while True:
        ended, status = os.wait()
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else KILLED_BY - code)
