"""Limits: what all processes of a kernel's planning may use together, and what errors and deaths say of a kernel.

The system's own limits count for one process, or for all of a user, and do not hold for the superuser: children escape
them. The zygote runs no foreign code and sees every process of its workers, so it looks at them many times a second and
ends a worker that exceeds a limit. This works for every user and needs no control group.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from kbench.schemas import Status

PR_SET_CHILD_SUBREAPER = 36
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
MOST_PROCESSES, MOST_BYTES = 64, 6 << 30
"""Processes and memory for planning a kernel: compilers take turns and need a few gigabytes at most."""
MOST_TASKS = 320
"""Processes and threads of a planning namespace, never exceeded, not even between two looks: a process that doubles
itself takes the processor from whoever looks. Linux has this bound from 6.14 on, and none below 301."""
LOOK_SECONDS = 0.05
"""Time between two looks, in which nothing stops a worker."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """The most that the processes of one worker may use, all together."""

    cpu_s: float
    """Processor time, of ended processes too."""
    processes: int = MOST_PROCESSES
    nbytes: int = MOST_BYTES
    """Memory that is their own; what several share counts once."""

    def exceeded(self, worker: int) -> tuple[Status, str] | None:
        """The verdict on a worker that uses more; None while it does not."""
        processes = descendants(worker, self.processes)
        if len(processes) > self.processes:
            return Status.REJECTED, f"planning it started more than {self.processes} processes"
        nbytes = sum(map(_private_bytes, processes))
        # Forked processes share memory, which is counted exactly only where it matters, because that takes longer.
        if nbytes > self.nbytes and (nbytes := sum(map(_shared_out_bytes, processes))) > self.nbytes:
            used = f"{nbytes / 2**30:.1f} GiB over {len(processes)} processes"
            return Status.OUT_OF_MEMORY, f"planning it took {used}; at most {self.nbytes / 2**30:g} GiB are allowed"
        if (spent_s := sum(map(_cpu_seconds, processes))) > self.cpu_s:
            return Status.TIMEOUT, f"planning it took {spent_s:.0f} s of processor time, at most {self.cpu_s:g} allowed"
        return None


def watching_works() -> bool:
    """Whether this system says which children a process has."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def adopt_orphans() -> None:
    """Have processes whose parent ended become children of this one, where they are seen."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int, most: int) -> list[int]:
    """A process and all that it started, itself or through others; a few more than the most are enough."""
    processes, waiting = [root], [root]
    while waiting and len(processes) <= most:
        for child in children(waiting.pop()):
            processes.append(child)
            waiting.append(child)
    return processes


def children(process: int) -> Iterator[int]:
    """The processes that one started; none when it is gone."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as file:
                yield from map(int, file.read().split())


def end(process: int) -> None:
    """End a process and all that it started."""
    for one in (process, *descendants(process, 1 << 20)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one, signal.SIGKILL)


def _private_bytes(process: int) -> int:
    return _kilobytes(f"/proc/{process}/status", ("RssAnon:", "RssShmem:", "VmSwap:")) << 10


def _shared_out_bytes(process: int) -> int:
    counted = _kilobytes(f"/proc/{process}/smaps_rollup", ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")) << 10
    return counted or _private_bytes(process)


def _kilobytes(file: str, fields: tuple[str, ...]) -> int:
    try:
        with open(file) as lines:
            return sum(int(line.split()[1]) for line in lines if line.startswith(fields))
    except OSError:
        # It has ended meanwhile.
        return 0


def _cpu_seconds(process: int) -> float:
    """Processor time of a process and of its children that have ended."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0.0
    # A program's name, in parentheses, may hold anything.
    return sum(map(int, text.rpartition(")")[2].split()[11:15])) / TICKS_PER_SECOND


REASON_LENGTH = 600
COMPILE_ERRORS = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct",
                            "PTXASError", "NVRTCError"})  # fmt: skip


def classify(error: BaseException) -> tuple[Status, str]:
    """The status and reason for what a kernel raised."""
    name, text = type(error).__name__, str(error).strip()
    reason = f"{name}: {text}"[:REASON_LENGTH]
    if name == "OutOfMemoryError" or isinstance(error, MemoryError) or "CUDA_ERROR_OUT_OF_MEMORY" in text:
        return Status.OUT_OF_MEMORY, reason
    if name in COMPILE_ERRORS or "nvrtc" in text.lower():
        return Status.COMPILE_ERROR, reason
    return Status.LAUNCH_ERROR, reason


def killed_from_outside(exit_code: int | None) -> bool:
    """Whether a death says nothing about screened code, which cannot send itself a signal.

    SIGKILL comes from an operator or the system's memory killer; no code at all means that the starter died too.
    """
    return exit_code is None or exit_code == -signal.SIGKILL


def verdict_on_death(exit_code: int | None, stage: str) -> tuple[Status, str]:
    """The status and reason when a worker died while a kernel was in its hands."""
    if exit_code is None:
        how = "ended without a trace"
    elif exit_code < 0:
        how = f"was ended by {signal.Signals(-exit_code).name}"
    else:
        how = f"exited with code {exit_code}"
    status = Status.OUT_OF_MEMORY if exit_code == -signal.SIGKILL else Status.LAUNCH_ERROR
    outside = exit_code == -signal.SIGSEGV and stage.startswith("verify")
    likely = "; it probably reads or writes outside a tensor: a missing mask?" if outside else ""
    return status, f"the process {how} while the kernel was in {stage}{likely}"
