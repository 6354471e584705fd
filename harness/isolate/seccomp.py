"""Seccomp: a system-call filter for workers that run unscreened code.

It forbids creating processes and starting programs, which a kernel whose machine code is ready never needs.
"""

from __future__ import annotations

import platform

from kbench.loaders.storage.seccomp import (
    ALLOW,
    ARCH_AT,
    ARCHITECTURES,
    FIRST_ARGUMENT_AT,
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
CLONE_THREAD = 0x00010000

CALLS = {
    "x86_64": {"clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101,
               "process_vm_readv": 310, "process_vm_writev": 311, "clone3": 435},
    "aarch64": {"clone": 220, "execve": 221, "execveat": 281, "ptrace": 117,
                "process_vm_readv": 270, "process_vm_writev": 271, "clone3": 435},
}  # fmt: skip


def lock_down() -> bool:
    """Forbid this process to create processes, start programs or read others' memory; False where not possible.

    Threads stay allowed: clone3 is answered as unknown, so that the C library falls back to clone, whose flags a
    filter can see.
    """
    machine = platform.machine()
    return machine in CALLS and install(_filter(ARCHITECTURES[machine], CALLS[machine]))


def _filter(machine: int, calls: dict[str, int]) -> bytes:
    """The filter's instructions."""
    code = [
        step(LOAD_WORD, ARCH_AT),
        step(JUMP_EQUAL, machine, 1, 0),
        step(RETURN, KILL),
        step(LOAD_WORD, NUMBER_AT),
    ]
    for name, number in calls.items():
        if name == "clone":
            continue
        code += [step(JUMP_EQUAL, number, 0, 1), step(RETURN, UNKNOWN if name == "clone3" else DENY)]
    code += [
        step(JUMP_EQUAL, calls["clone"], 0, 3),
        step(LOAD_WORD, FIRST_ARGUMENT_AT),
        step(JUMP_SET, CLONE_THREAD, 1, 0),
        step(RETURN, DENY),
        step(RETURN, ALLOW),
    ]
    return b"".join(code)
