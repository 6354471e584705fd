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
    extension: bool = False
    """It may compile a torch extension on import, which takes a C++ compiler a minute."""
    compile_only: bool = False
    """Only the build is wanted."""
    mix: bool = False
    """The build is to say which instructions the kernel consists of."""
    build: Build | None = None
    build_s: float = 0.0
    attempts: int = 0
    """Times the machine failed it."""
    suspected: bool = False
    """A worker that had run other kernels died on it; tried once more in a fresh one before it is blamed."""
    stage: str = "queue"
    started_at: str = ""
    rival: tuple[KernelSource, Build] | None = None
    """A second kernel to be compared with, already built."""
    threshold: float = 0.01

    def message(self) -> dict[str, Any]:
        """The kernel as plain values."""
        return plain(self.kernel)

    def run_messages(self, ceilings: dict[str, Any] | None, target: str) -> list[dict[str, Any]]:
        """What a run worker is sent."""
        assert self.build is not None
        kernels = [(self.kernel, self.build)] + ([self.rival] if self.rival is not None else [])
        load = {
            "op": "load",
            "target": target,
            "alone": self.solo,
            "task": self.task,
            # Triton code that is compiled at its first call needs to start a compiler.
            "strict": not self.extension and all(b.ahead_of_time or "jit" not in k.source for k, b in kernels),
            "kernels": [plain(k) | {"build": dataclasses.asdict(b)} for k, b in kernels],
        }
        run = {"op": "execute", "ceilings": ceilings, "threshold": self.threshold}
        return [load, run]


def plain(kernel: KernelSource) -> dict[str, Any]:
    """A kernel as plain values."""
    return {"problem_id": kernel.problem_id, "backend": kernel.backend.value, "source": kernel.source}


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
