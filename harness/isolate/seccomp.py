"""Seccomp: a system-call filter for workers that run unscreened code.

It forbids creating processes and starting programs, which a kernel whose machine code is ready never needs.
"""

from __future__ import annotations

import ctypes
import platform
import struct

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, KILL, DENY, UNKNOWN = 0x7FFF0000, 0x80000000, 0x00050000 | 1, 0x00050000 | 38
"""Verdicts: let through, end the process, fail with EPERM, fail with ENOSYS."""
CLONE_THREAD = 0x00010000
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16

MACHINES = {
    "x86_64": (0xC000003E, {"clone": 56, "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "ptrace": 101,
                            "process_vm_readv": 310, "process_vm_writev": 311, "clone3": 435}),
    "aarch64": (0xC00000B7, {"clone": 220, "execve": 221, "execveat": 281, "ptrace": 117,
                             "process_vm_readv": 270, "process_vm_writev": 271, "clone3": 435}),
}  # fmt: skip


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def lock_down() -> bool:
    """Forbid this process to create processes, start programs or read others' memory; False where not possible.

    Threads stay allowed: clone3 is answered as unknown, so that the C library falls back to clone, whose flags a
    filter can see.
    """
    known = MACHINES.get(platform.machine())
    if known is None:
        return False
    code = _filter(*known)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.cast(buffer, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) == 0)


def _filter(machine: int, calls: dict[str, int]) -> bytes:
    """The filter's instructions; a jump's two distances count instructions to skip when it holds and when not."""
    code = [
        _step(LOAD_WORD, ARCH_AT),
        _step(JUMP_EQUAL, machine, 1, 0),
        _step(RETURN, KILL),
        _step(LOAD_WORD, NUMBER_AT),
    ]
    for name, number in calls.items():
        if name == "clone":
            continue
        code += [_step(JUMP_EQUAL, number, 0, 1), _step(RETURN, UNKNOWN if name == "clone3" else DENY)]
    code += [
        _step(JUMP_EQUAL, calls["clone"], 0, 3),
        _step(LOAD_WORD, FIRST_ARGUMENT_AT),
        _step(JUMP_SET, CLONE_THREAD, 1, 0),
        _step(RETURN, DENY),
        _step(RETURN, ALLOW),
    ]
    return b"".join(code)


def _step(code: int, value: int, when: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("<HBBI", code, when, otherwise, value)
