"""Seccomp: system-call filters for workers that run foreign code.

While a kernel is planned, programs may be started, which compilers need, and nothing outside can be talked to. Where
unscreened code runs, its machine code is ready, and neither processes nor programs can be started.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping

from kbench.loaders.storage.seccomp import (
    ALLOW,
    ARCH_AT,
    ARCHITECTURES,
    FIRST_ARGUMENT_AT,
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    JUMP_SET,
    LOAD_WORD,
    NUMBER_AT,
    RETURN,
    install,
    step,
)

KILL, DENY, UNKNOWN = 0x80000000, 0x00050000 | 1, 0x00050000 | 38
"""Verdicts: end the process, fail with EPERM, fail with ENOSYS."""
OTHER_NUMBERS = 0x40000000
"""From here on x86-64 has other numbers for the same calls; elsewhere there is none."""
SECOND_ARGUMENT_AT = FIRST_ARGUMENT_AT + 8
CLONE_THREAD = 0x00010000
DATAGRAM = 2
"""The bit that types of sockets have which can send to any address, connected or not."""

CALLS = {
    "x86_64": {"socket": 41, "socketpair": 53, "clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322,
               "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "io_uring_setup": 425, "clone3": 435,
               "pidfd_getfd": 438, "sched_setaffinity": 203, "shmget": 29, "semget": 64, "msgget": 68, "mq_open": 240,
               "add_key": 248, "request_key": 249, "keyctl": 250},
    "aarch64": {"socket": 198, "socketpair": 199, "clone": 220, "execve": 221, "execveat": 281,
                "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "io_uring_setup": 425, "clone3": 435,
                "pidfd_getfd": 438, "sched_setaffinity": 122, "shmget": 194, "semget": 190, "msgget": 186,
                "mq_open": 180, "add_key": 217, "request_key": 218, "keyctl": 219},
}  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class ByBits:
    """A verdict that depends on whether an argument has some bits."""

    argument_at: int
    bits: int
    found: int
    missing: int


Rules = Mapping[str, int | ByBits]
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


def lock_down() -> bool:
    """Forbid this process to create processes, start programs, reach into others or leave something behind.

    False where that is not possible.
    """
    return _forbid({**PROCESSES, **OTHERS, **LASTING})


def forbid_sockets() -> bool:
    """Forbid this process to talk to whoever listens, on this machine or another; False where not possible.

    A network namespace is not enough: sockets in the file system lead out of it. Processes and programs stay allowed,
    and the same is forbidden to them. So is reaching into other processes, and leaving something behind for them.
    """
    # Planning also stays on the processors that it was given: others time and judge.
    return _forbid({**SOCKETS, **OTHERS, **LASTING, "sched_setaffinity": DENY})


def _forbid(rules: Rules) -> bool:
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


def _verdict(rule: int | ByBits) -> list[bytes]:
    if isinstance(rule, int):
        return [step(RETURN, rule)]
    return [
        step(LOAD_WORD, rule.argument_at),
        step(JUMP_SET, rule.bits, 0, 1),
        step(RETURN, rule.found),
        step(RETURN, rule.missing),
    ]
