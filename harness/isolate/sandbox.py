"""Sandbox: what a worker gives up before it loads a kernel."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Collection
from pathlib import Path

from kbench.benchmark.problems.foreign.user_code import USER_FACTS
from kbench.benchmark.problems.registry import USER_FILES
from kbench.loaders.storage.namespaces import CLONE_NEWIPC, CLONE_NEWNET, unshare

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
    # No network, and none of the system's shared memory and message queues, which outlive who made them.
    for flags, names in ((CLONE_NEWNET | CLONE_NEWIPC, ["netns", "ipcns"]), (CLONE_NEWNET, ["netns"])):
        if unshare(flags):
            applied += names
            break
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
                  USER_FILES, USER_FACTS)  # fmt: skip
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
