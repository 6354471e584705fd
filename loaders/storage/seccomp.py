"""Seccomp: puts a system-call filter on this process and all it starts. What it forbids is the caller's choice."""

from __future__ import annotations

import ctypes
import struct

LOAD_WORD, JUMP_EQUAL, JUMP_AT_LEAST, JUMP_SET, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW = 0x7FFF0000
NUMBER_AT, ARCH_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Where a filter finds the call's number, the architecture, and the call's first argument."""
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2


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
