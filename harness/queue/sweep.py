"""Sweep: configurations of a kernel on the same workloads, one after another, so that they share inputs and answers.

Configurations are built first. Those of a part go to the device when all of its builds are known: one that takes long
to compile would otherwise come when the inputs of its part have made room for others.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from kbench.harness.plan.cache import Build
from kbench.harness.queue.job import Job, Outcome
from kbench.schemas import KernelSource

ON_DEVICE = 128
"""Jobs handed to the device ahead of time; builds go on meanwhile."""
BUILT_AHEAD = 40
"""Parts whose kernels are built ahead of the device."""


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Kernels of one problem that are measured one after another on some of its workloads."""

    kernels: tuple[KernelSource, ...]
    workloads: tuple[str, ...]


class Sweep:
    """The jobs of some parts, in an order in which the device seldom waits for a build."""

    def __init__(
        self, parts: Iterable[Part], make_job: Callable[[KernelSource, Part | None], Job], seconds: float | None = None
    ) -> None:
        """Make jobs.

        Args:
            parts: taken in a few ahead of the device.
            make_job: makes the job of a kernel: its build where there is no part, otherwise its measurement.
            seconds: after which nothing is handed out any more; no end by default.
        """
        self._parts, self._make_job = iter(parts), make_job
        self._end = None if seconds is None else time.monotonic() + seconds
        self._unbuilt: deque[KernelSource] = deque()
        self._waiting: deque[Part] = deque()
        """Parts some of whose builds are not known."""
        self._ready: deque[tuple[KernelSource, Part]] = deque()
        self._builds: dict[str, Outcome | None] = {}
        """The outcome of each build; None while it is not known."""
        self._lost: set[str] = set()
        self._on_device = 0

    def jobs(self) -> Iterator[Job | None]:
        """Builds and measurements; None while builds or the device are waited for."""
        while not self._late:
            self._take_in()
            if self._ready and (self._on_device < ON_DEVICE or not self._unbuilt):
                self._on_device += 1
                yield self._measurement(*self._ready.popleft())
            elif self._unbuilt:
                yield self._make_job(self._unbuilt.popleft(), None)
            elif self._waiting:
                yield None
            else:
                return

    def take(self, outcome: Outcome) -> Outcome | None:
        """Take the outcome of a job in; that of a measurement is handed back."""
        if outcome.job.compile_only:
            self._builds[outcome.job.kernel.kernel_id] = outcome
            return None
        self._on_device -= 1
        return outcome

    def lose(self, kernel: KernelSource) -> None:
        """Go on without a kernel that the machine failed."""
        if self._builds.get(kernel.kernel_id) is not None:
            self._on_device -= 1
        self._lost.add(kernel.kernel_id)

    @property
    def over(self) -> bool:
        """Whether time is up and nothing is to come back from the device, whatever is still being built."""
        return self._late and self._on_device == 0

    @property
    def _late(self) -> bool:
        return self._end is not None and time.monotonic() > self._end

    def _take_in(self) -> None:
        """Take in parts while there is room, and make those ready whose builds are all known."""
        while len(self._waiting) < BUILT_AHEAD and (part := next(self._parts, None)) is not None:
            self._waiting.append(part)
            new = [kernel for kernel in part.kernels if kernel.kernel_id not in self._builds]
            self._builds |= {kernel.kernel_id: None for kernel in new}
            self._unbuilt.extend(new)
        for part in list(self._waiting):
            kept = [kernel for kernel in part.kernels if kernel.kernel_id not in self._lost]
            if all(self._builds[kernel.kernel_id] is not None for kernel in kept):
                self._waiting.remove(part)
                self._ready.extend((kernel, part) for kernel in kept)

    def _measurement(self, kernel: KernelSource, part: Part) -> Job:
        job, built = self._make_job(kernel, part), self._builds[kernel.kernel_id]
        if built is not None and built.status is not None:
            # Not every failure is kept where builds are: what took too long would be tried again at every workload.
            job.build = Build("", built.status, built.reason)
        return job
