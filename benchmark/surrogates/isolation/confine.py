"""What a user's surrogate may use: time, memory, its environment, the network, and not the answers.

Everything here is asked of the system in the surrogate's own process before any of its code runs. What the system does
not permit is named, not hidden: docs/threat-model.md says what each part is worth.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import platform
import re
import resource
from collections.abc import Mapping, Sequence

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

SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|SESSION", re.IGNORECASE)
"""Names of variables that hold what only their owner may use."""
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a surrogate may use."""

    start_s: float = 120.0
    """Seconds to import and construct it: large models take a while to load."""
    fit_s: float = 3600.0
    """Seconds for `fit`."""
    forecast_s: float = 120.0
    """Seconds for one call of `forecast`."""
    memory_gb: float | None = None
    """Memory of each of its processes; four fifths of the machine's by default."""
    network: bool = False
    """Whether it may reach other machines."""
    variables: tuple[str, ...] = ()
    """Variables it gets although their names look like secrets."""
    hidden: tuple[str, ...] = ()
    """Folders it must not see: they hold the answers."""

    def for_worker(self) -> list[str]:
        """The worker's arguments."""
        told = {"memory_bytes": self.memory_bytes, "network": self.network, "hidden": self.hidden}
        return [json.dumps(told)]

    @property
    def memory_bytes(self) -> int:
        """The memory limit in bytes."""
        if self.memory_gb is not None:
            return int(self.memory_gb * 1e9)
        return int(0.8 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The environment without secrets."""
        return {name: value for name, value in given.items() if name in self.variables or not SECRETS.search(name)}


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
        try:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
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
