"""Seccomp: system-call filters for processes that run foreign code, put on the process and all it starts.

While a kernel is planned, programs may be started, which compilers need, and nothing outside can be talked to. Where
unscreened code runs, its machine code is ready, and neither processes nor programs can be started. A surrogate may do
both, and cannot undo what hides the answers from it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import platform
import struct
from collections.abc import Mapping

LOAD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, DENY, UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 38
"""Verdicts: go on, end the process, fail with EPERM, fail with ENOSYS."""
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Where a filter finds the call's number, the architecture, and the call's first argument."""
SECOND_ARGUMENT_AT = FIRST_ARGUMENT_AT + 8
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
OTHER_NUMBERS = 0x40000000
"""From here on x86-64 has other numbers for the same calls; elsewhere there is none."""
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
CLONE_THREAD = 0x00010000
NEW_NAMESPACES = 0x7E020000
"""The bits of clone that ask for a namespace of any kind."""
DATAGRAM = 2
"""The bit that types of sockets have which can send to any address, connected or not."""
AF_UNIX = 1

NEWER = {"io_uring_setup": 425, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432,
         "fspick": 433, "clone3": 435, "pidfd_getfd": 438, "mount_setattr": 442, "memfd_secret": 447,
         "open_tree_attr": 467}  # fmt: skip
"""Calls that have one number on every architecture."""
CALLS = {
    "x86_64": {"socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
               "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "sched_setaffinity": 203, "shmget": 29,
               "semget": 64, "msgget": 68, "mq_open": 240, "add_key": 248, "request_key": 249, "keyctl": 250,
               "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
               "name_to_handle_at": 303, "open_by_handle_at": 304, "kcmp": 312, "perf_event_open": 298, "bpf": 321,
               "userfaultfd": 323, "memfd_create": 319, "flock": 73, "fcntl": 72, **NEWER},
    "aarch64": {"socket": 198, "socketpair": 199, "clone": 220, "execve": 221, "execveat": 281,
                "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "sched_setaffinity": 122,
                "shmget": 194, "semget": 190, "msgget": 186, "mq_open": 180, "add_key": 217, "request_key": 218,
                "keyctl": 219, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268,
                "name_to_handle_at": 264, "open_by_handle_at": 265, "kcmp": 272, "perf_event_open": 241, "bpf": 280,
                "userfaultfd": 282, "memfd_create": 279, "flock": 32, "fcntl": 25, **NEWER},
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class ByBits:
    """A verdict that depends on whether an argument has any of some bits."""

    argument_at: int
    bits: int
    found: int
    missing: int


@dataclasses.dataclass(frozen=True, slots=True)
class Unless:
    """A refusal unless an argument has one value."""

    argument_at: int
    value: int


@dataclasses.dataclass(frozen=True, slots=True)
class If:
    """A refusal if an argument has one of some values."""

    argument_at: int
    values: tuple[int, ...]


Rules = Mapping[str, int | ByBits | Unless | If]
"""A verdict for each call that is not simply allowed."""

OTHERS: Rules = dict.fromkeys(("ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd"), DENY)
"""Calls that reach into other processes."""
# Threads stay allowed: clone3 is answered as unknown, so that the C library falls back to clone, whose flags a filter
# can see.
PROCESSES: Rules = dict.fromkeys(("fork", "vfork", "execve", "execveat"), DENY) | {
    "clone3": UNKNOWN,
    "clone": ByBits(FIRST_ARGUMENT_AT, CLONE_THREAD, found=ALLOW, missing=DENY),
}
# Pairs stay allowed where both ends are connected for good. A ring for input and output would make sockets without a
# call that a filter sees.
SOCKETS: Rules = {
    "socket": DENY,
    "socketpair": ByBits(SECOND_ARGUMENT_AT, DATAGRAM, found=DENY, missing=ALLOW),
    "io_uring_setup": UNKNOWN,
}

LASTING: Rules = dict.fromkeys(("shmget", "semget", "msgget", "mq_open", "add_key", "request_key", "keyctl"), DENY)
"""Calls that make what outlives the process, where others find it."""
# A new user namespace has all privileges again, and with them mounts of its own; a handle opens a file by its number.
MOUNTS: Rules = dict.fromkeys(
    ("mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "open_tree_attr", "move_mount",
     "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "name_to_handle_at", "open_by_handle_at"), DENY,
) | {"clone3": UNKNOWN, "clone": ByBits(FIRST_ARGUMENT_AT, NEW_NAMESPACES, found=DENY, missing=ALLOW)}  # fmt: skip
"""Calls that change what is seen where."""
# A file that can only be read can be locked, and then whoever writes it waits: F_SETLK and F_SETLKW, both also of open
# files, and F_SETLEASE.
LOCKS: Rules = {"flock": DENY, "fcntl": If(SECOND_ARGUMENT_AT, (6, 7, 37, 38, 1024))}
UNSEEN: Rules = dict.fromkeys(("memfd_create", "memfd_secret"), UNKNOWN)
"""Calls that make memory which counts for no process."""
INSPECTION: Rules = dict.fromkeys(("kcmp", "perf_event_open", "bpf", "userfaultfd"), DENY)
"""Calls that look into the kernel or at others."""


def lock_down() -> bool:
    """Forbid this process to create processes, start programs, reach into others or leave something behind.

    False where that is not possible.
    """
    return forbid({**PROCESSES, **OTHERS, **LASTING})


def forbid_reaching_out() -> bool:
    """Forbid this process to talk to whoever listens, here or elsewhere, and to hold up, reach into or outlive others.

    A network namespace is not enough: sockets in the file system lead out of it. Processes and programs stay allowed,
    and the same is forbidden to them. False where not possible.
    """
    # Planning also stays on the processors that it was given: others time and judge.
    rules = {**SOCKETS, **OTHERS, **LASTING, **LOCKS, **MOUNTS, **UNSEEN, **INSPECTION, "sched_setaffinity": DENY}
    return forbid(rules)


def forbid_escape(*, network: bool) -> bool:
    """Forbid this process to undo what hides files and processes from it; False where not possible.

    Args:
        network: whether sockets that reach other machines stay allowed; those within this machine do, which libraries
            need.
    """
    sockets: Rules = {} if network else {"socket": Unless(FIRST_ARGUMENT_AT, AF_UNIX)}
    keys = {name: LASTING[name] for name in ("add_key", "request_key", "keyctl")}
    return forbid({**MOUNTS, **OTHERS, **INSPECTION, **keys, **sockets, "io_uring_setup": UNKNOWN})


def forbid(rules: Rules) -> bool:
    """Put a filter on this process; False where the system does not permit it."""
    machine = platform.machine()
    return machine in CALLS and install(_filter(ARCHITECTURES[machine], CALLS[machine], rules))


def _filter(machine: int, calls: Mapping[str, int], rules: Rules) -> bytes:
    """The filter's instructions."""
    code = [
        step(LOAD_WORD, ARCH_AT),
        step(JUMP_EQUAL, machine, 1, 0),
        step(RETURN, KILL),
        step(LOAD_WORD, NUMBER_AT),
        step(JUMP_AT_LEAST, OTHER_NUMBERS, 0, 1),
        step(RETURN, DENY),
    ]
    for name, rule in rules.items():
        if name in calls:
            then = _verdict(rule)
            code += [step(JUMP_EQUAL, calls[name], 0, len(then)), *then]
    return b"".join([*code, step(RETURN, ALLOW)])


def _verdict(rule: int | ByBits | Unless | If) -> list[bytes]:
    if isinstance(rule, int):
        return [step(RETURN, rule)]
    if isinstance(rule, If):
        refusals = [part for value in rule.values for part in (step(JUMP_EQUAL, value, 0, 1), step(RETURN, DENY))]
        return [step(LOAD_WORD, rule.argument_at), *refusals, step(RETURN, ALLOW)]
    if isinstance(rule, Unless):
        test, found, missing = step(JUMP_EQUAL, rule.value, 0, 1), ALLOW, DENY
    else:
        test, found, missing = step(JUMP_SET, rule.bits, 0, 1), rule.found, rule.missing
    return [step(LOAD_WORD, rule.argument_at), test, step(RETURN, found), step(RETURN, missing)]


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def step(operation: int, value: int, true: int = 0, false: int = 0) -> bytes:
    """One instruction; a jump's two distances count instructions to skip when it holds and when not."""
    return struct.pack("<HBBI", operation, true, false, value)


def install(code: bytes) -> bool:
    """Filter the calls of this process from now on; False where the system does not permit it."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)
