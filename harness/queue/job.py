"""Job: one kernel, two to be compared, or several to be profiled; and its outcome."""

from __future__ import annotations

import dataclasses
from typing import Any

from kbench.harness.plan.cache import Build
from kbench.schemas import KernelSource


@dataclasses.dataclass(slots=True, eq=False)
class Job:
    """A kernel, its instructions, and its progress through planning and measuring."""

    number: int
    kernel: KernelSource
    task: dict[str, Any] = dataclasses.field(default_factory=dict)
    workloads: tuple[str, ...] | None = None
    """Names of the workloads to plan, where some of the problem's do not fit into the memory that may be used."""
    compile_only: bool = False
    """The kernel is built and not run."""
    count_work: bool = False
    """Planning also counts the work that the plans do."""
    build: Build | None = None
    build_s: float = 0.0
    process: bool = False
    """The host code runs beside its judge, alone in a fresh process."""
    extension: str | None = None
    """Folder of the torch extension that the kernel compiles on import."""
    attempts: int = 0
    """Times that the machine failed the job on a device."""
    plan_attempts: int = 0
    """Times that the planning process was killed from outside."""
    kills: int = 0
    """Times that a worker which ran the host code was killed by a signal."""
    alone: bool = False
    """The job gets a fresh worker and is blamed if that dies: a worker died on it after running others, or the kernel
    is known to end its worker."""
    stage: str = "queue"
    started_at: str = ""
    rival: Job | None = None
    """A second kernel to be compared with, already built."""
    threshold: float = 0.01
    profiled: tuple[Job, ...] = ()
    """Kernels, already built, that the profiler times in one worker; such a job measures nothing else."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a job: plain results, one verdict for all workloads, or the machine's failure."""

    job: Job
    device: int
    results: tuple[dict[str, Any], ...] = ()
    status: str | None = None
    reason: str | None = None
    infrastructure: str | None = None
    busy_s: float = 0.0
