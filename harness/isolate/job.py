"""Job: one kernel on its way through build and run, and what comes out."""

from __future__ import annotations

import dataclasses
from typing import Any

from kbench.harness.build.cache import Build
from kbench.schemas import KernelSource


@dataclasses.dataclass(slots=True, eq=False)
class Job:
    """A kernel and how far it has come."""

    number: int
    kernel: KernelSource
    task: dict[str, Any]
    solo: bool = False
    """Runs alone in a fresh process: its text did not pass the screen."""
    compile_only: bool = False
    """Only the build is wanted."""
    build: Build | None = None
    build_s: float = 0.0
    attempts: int = 0
    """Times the machine failed it."""
    suspected: bool = False
    """A worker that had run other kernels died on it; tried once more in a fresh one before it is blamed."""
    stage: str = "queue"
    started_at: str = ""

    def message(self) -> dict[str, Any]:
        """The kernel as plain values."""
        return {
            "problem_id": self.kernel.problem_id,
            "backend": self.kernel.backend.value,
            "source": self.kernel.source,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a job: plain results, a verdict for all its workloads, or the machine's failure."""

    job: Job
    lane: int
    results: tuple[dict[str, Any], ...] = ()
    status: str | None = None
    reason: str | None = None
    infrastructure: str | None = None
    busy_s: float = 0.0
