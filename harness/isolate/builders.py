"""Builders: a pool of processes that compile ahead of the GPU."""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Iterator

from kbench.harness.build.cache import Build, BuildCache
from kbench.harness.build.target import Target, build_id
from kbench.harness.isolate.job import Job, Outcome
from kbench.harness.isolate.protocol import ClosedError, ProtocolError
from kbench.harness.isolate.spawner import Spawner, WorkerProcess
from kbench.harness.judge import judge_death
from kbench.schemas import Status

SOLO_SECONDS = 15.0
"""Longest an unscreened kernel may hold up a build process before it goes on without."""
EXTENSION_PATIENCE = 10.0
"""Times longer a torch extension may take to build."""


@dataclasses.dataclass(slots=True, eq=False)
class Seat:
    """One place in the pool."""

    worker: WorkerProcess | None = None
    ready: bool = False
    job: Job | None = None
    began: float = 0.0


class Builders:
    """Compiles jobs; a compiler that crashes or hangs costs one kernel and one process."""

    def __init__(self, spawner: Spawner, cache: BuildCache, target: Target, seats: int, timeout_s: float) -> None:
        """Hold up to `seats` processes, started when first needed."""
        self.spawner, self.cache, self.target, self.timeout_s = spawner, cache, target, timeout_s
        self.seats = [Seat() for _ in range(seats)]
        self.waiting: deque[Job] = deque()
        self.busy_s = 0.0

    @property
    def load(self) -> int:
        """Jobs waiting or being built."""
        return len(self.waiting) + sum(seat.job is not None for seat in self.seats)

    def add(self, job: Job) -> bool:
        """Take a job in; True when the cache had its build, so that it is ready at once."""
        found = self.cache.get(build_id(job.kernel.kernel_id, self.target))
        if found is not None:
            job.build = found
            return True
        self.waiting.append(job)
        return False

    def channels(self) -> dict[int, Seat]:
        """Descriptors to wait on."""
        return {seat.worker.channel.fileno(): seat for seat in self.seats if seat.worker is not None}

    def assign(self) -> None:
        """Give waiting jobs to free seats."""
        for seat in self.seats:
            if not self.waiting:
                return
            if seat.job is not None:
                continue
            if seat.worker is None:
                seat.worker, seat.ready = self.spawner.spawn("build"), False
            seat.job, seat.began = self.waiting.popleft(), time.monotonic()
            seat.job.stage = "build"
            try:
                target = [self.target.major, self.target.minor]
                seat.worker.channel.send(
                    seat.job.message() | {"target": target, "alone": seat.job.solo, "extension": seat.job.extension}
                )
            except ClosedError:
                # Noticed as a death when the channel is read.
                continue

    def read(self, seat: Seat) -> Iterator[Outcome | Job]:
        """What a seat has to say: a built job, or the outcome of one that does not compile."""
        assert seat.worker is not None
        try:
            for message in seat.worker.channel.drain():
                if "built" in message and seat.job is not None:
                    yield self._finish(seat, Build(**message["built"]))
                if seat.worker is None:
                    return
        except (ClosedError, ProtocolError):
            yield from self._bury(seat)

    def expire(self) -> Iterator[Outcome | Job]:
        """Jobs whose compiler has taken too long."""
        for seat in self.seats:
            if seat.job is None:
                continue
            limit = self._limit(seat.job)
            if time.monotonic() - seat.began > limit:
                job = self._remove(seat)
                if job is not None:
                    yield self._lost(job, Status.TIMEOUT, f"building took longer than {limit:g} s")

    def _limit(self, job: Job) -> float:
        if job.extension:
            return self.timeout_s * EXTENSION_PATIENCE
        return min(self.timeout_s, SOLO_SECONDS) if job.solo else self.timeout_s

    def close(self) -> None:
        """End all processes."""
        for seat in self.seats:
            self._remove(seat)

    def _finish(self, seat: Seat, build: Build) -> Outcome | Job:
        job = seat.job
        assert job is not None
        job.build, job.build_s, seat.job = build, time.monotonic() - seat.began, None
        self.busy_s += job.build_s
        if job.solo:
            # It ran foreign module-level code: the process is not used again.
            self._remove(seat)
        if build.error is not None:
            return Outcome(job, -1, status=Status.COMPILE_ERROR.value, reason=build.error)
        return job

    def _bury(self, seat: Seat) -> Iterator[Outcome | Job]:
        worker = seat.worker
        assert worker is not None
        code, said = self.spawner.exit_code(worker), worker.log_tail()
        job = self._remove(seat)
        if job is None:
            return
        _, reason = judge_death(code, "the compiler")
        yield self._lost(job, Status.COMPILE_ERROR, f"{reason}: {said}" if said else reason)

    def _lost(self, job: Job, status: Status, reason: str) -> Outcome | Job:
        """What a build that did not end by itself means.

        An unscreened kernel's own code may have ended or held up the process, which is for the run stage to judge;
        it goes on without machine code.
        """
        if not job.solo:
            return Outcome(job, -1, status=status.value, reason=reason)
        identity = build_id(job.kernel.kernel_id, self.target)
        job.build = Build(identity, None, None, None, None, None, None, False, note=reason)
        return job

    def _remove(self, seat: Seat) -> Job | None:
        job, seat.job = seat.job, None
        if seat.worker is not None:
            seat.worker.kill()
            seat.worker.clean()
        seat.worker = None
        return job
