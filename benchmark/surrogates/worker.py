"""The process of a user's surrogate: `python -m kbench.benchmark.surrogates.worker FD LIMITS`.

Whatever the surrogate prints, changes, hangs on or exits with stays in this process. Its limits are asked of the system
before any of its code runs. What the system does not permit is named, not hidden: docs/threat-model.md says what each
part is worth.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import json
import os
import pickle
import platform
import resource
import socket
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.surrogates.protocol import SurrogateFacts, answer_rows
from kbench.benchmark.surrogates.resolve import construct
from kbench.loaders.storage.scratch import settle_temporary_folder
from kbench.loaders.storage.seccomp import (
    ALLOW,
    ARCH_AT,
    ARCHITECTURES,
    FIRST_ARGUMENT_AT,
    JUMP_AT_LEAST,
    JUMP_EQUAL,
    LOAD_WORD,
    NUMBER_AT,
    RETURN,
    install,
    step,
)
from kbench.schemas import Forecast, KbenchError, to_dict

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_PRIVATE_ALL = 0x4000 | 0x40000
SOCKET = {"x86_64": 41, "aarch64": 198}
"""Number of the system call `socket`."""
IO_URING_SETUP = 425
OTHER_NUMBERS = 0x40000000
"""From here on x86-64 has other numbers for the same calls."""
AF_UNIX = 1
DENY = 0x00050000 | 13
"""Fails a system call with "permission denied"."""


def main() -> None:
    """Answer until the parent closes the connection."""
    for limit in confine(**json.loads(sys.argv[2])):
        sys.stderr.write(f"kbench: this system does not permit {limit}; the surrogate runs without that limit\n")
    settle_temporary_folder()
    surrogate: Any = None
    with socket.socket(fileno=int(sys.argv[1])) as connection, connection.makefile("rb") as requests:
        # Children of the surrogate must not hold the connection open after it died.
        connection.set_inheritable(False)
        with contextlib.suppress(EOFError):
            while True:
                kind, given = pickle.load(requests)
                try:
                    if kind == "make":
                        surrogate = construct(*given)
                        result: Any = dataclasses.asdict(SurrogateFacts.of(surrogate))
                    elif kind == "fit":
                        surrogate.fit(pickle.loads(Path(given).read_bytes()))
                        result = True
                    else:
                        result = answer_rows(surrogate.forecast(given), given)
                    reply = _line({kind: result})
                except KbenchError as error:
                    reply = _line({"failed": str(error)})
                except Exception as error:  # noqa: BLE001 - the process boundary: what a user's code raises is a reply
                    traceback.print_exc(file=sys.stderr)
                    reply = _line({"failed": f"{type(error).__name__}: {error}"})
                connection.sendall(reply)


def _line(reply: dict[str, Any]) -> bytes:
    """One line of JSON. NaN and Infinity pass, so that the reader can refuse them by name."""
    return json.dumps(reply, default=_plain).encode() + b"\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Forecast):
        return {name: each for name, each in to_dict(value).items() if each is not None}
    if hasattr(value, "tolist"):
        # Most models have numpy numbers at hand.
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no number")


def confine(memory_bytes: int, network: bool, hidden: Sequence[str]) -> list[str]:
    """Confine this process and all it starts.

    Returns:
        What the system does not permit.
    """
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    refused = []
    if hidden and not _hide(hidden):
        refused.append("hiding the dataset's answers")
    if not network and not _forbid_sockets():
        refused.append("cutting off the network")
    return refused


def _hide(folders: Sequence[str]) -> bool:
    """Lay an empty folder over each, for this process and what it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNS) != 0:
        if libc.unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0:
            return False
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        try:
            for name, text in maps.items():
                Path(f"/proc/self/{name}").write_text(text)
        except OSError:
            return False
    if libc.mount(None, b"/", None, MS_PRIVATE_ALL, None) != 0:
        return False
    return all(libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, b"size=4k") == 0 for folder in folders)


def _forbid_sockets() -> bool:
    """Forbid sockets that reach other machines; those within this machine stay, which libraries need."""
    machine = platform.machine()
    if machine not in SOCKET:
        return False
    code = (
        step(LOAD_WORD, ARCH_AT),
        step(JUMP_EQUAL, ARCHITECTURES[machine], 1, 0),
        step(RETURN, DENY),
        step(LOAD_WORD, NUMBER_AT),
        step(JUMP_AT_LEAST, OTHER_NUMBERS, 4, 0),
        step(JUMP_EQUAL, IO_URING_SETUP, 3, 0),
        step(JUMP_EQUAL, SOCKET[machine], 0, 3),
        step(LOAD_WORD, FIRST_ARGUMENT_AT),
        step(JUMP_EQUAL, AF_UNIX, 1, 0),
        step(RETURN, DENY),
        step(RETURN, ALLOW),
    )
    return install(b"".join(code))


if __name__ == "__main__":
    main()
