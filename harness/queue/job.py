"""Job: one kernel, two to be compared or several to be profiled, on the way to what comes out of it."""

from __future__ import annotations

import dataclasses
from typing import Any

from kbench.harness.plan.cache import Build
from kbench.schemas import KernelSource


@dataclasses.dataclass(slots=True, eq=False)
class Job:
    """A kernel and how far it has come."""

    number: int
    kernel: KernelSource
    task: dict[str, Any] = dataclasses.field(default_factory=dict)
    compile_only: bool = False
    """Only the build is wanted."""
    count_work: bool = False
    """The build is to say what the kernel's plans do."""
    build: Build | None = None
    build_s: float = 0.0
    process: bool = False
    """Its host code runs beside its judge, alone in a fresh process."""
    extension: str | None = None
    """Folder of the torch extension it compiles on import."""
    attempts: int = 0
    """Times the machine failed it on a device."""
    plan_attempts: int = 0
    """Times its planning process was killed from outside."""
    kills: int = 0
    """Times a worker that ran its host code was killed by a signal."""
    alone: bool = False
    """It gets a fresh worker and is blamed if that dies: a worker died on it after running others, or it is known to
    end its worker."""
    stage: str = "queue"
    started_at: str = ""
    rival: Job | None = None
    """A second kernel to be compared with, already built."""
    threshold: float = 0.01
    profiled: tuple[Job, ...] = ()
    """Kernels, already built, that the profiler times in one worker; nothing is measured then."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: plain results, a verdict for all its workloads, or the machine's failure."""

    job: Job
    device: int
    results: tuple[dict[str, Any], ...] = ()
    status: str | None = None
    reason: str | None = None
    infrastructure: str | None = None
    busy_s: float = 0.0
