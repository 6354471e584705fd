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
from kbench.harness.verify.judge import judge_death, killed_from_outside
from kbench.schemas import Status

RETRIES = 3
"""Times a build is repeated when its process is killed from outside."""
EXTENSION_PATIENCE = 10.0
"""Times longer a torch extension may take to build."""


@dataclasses.dataclass(slots=True, eq=False)
class Seat:
    """One place in the pool."""

    worker: WorkerProcess | None = None
    ready: bool = False
    job: Job | None = None
    began: float = 0.0


def unbuilt(job: Job, target: Target) -> Build:
    """The build of a kernel that is compiled at its first call."""
    note = "its text did not pass the screen, so it is compiled where it runs"
    return Build(build_id(job.kernel.kernel_id, target), None, None, None, None, None, None, False, note=note)


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
        if found is not None and found.answers(job.mix):
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
                wanted = {"target": [self.target.major, self.target.minor], "mix": seat.job.mix}
                seat.worker.channel.send(seat.job.message() | wanted | {"extension": seat.job.extension})
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

    def expire(self) -> Iterator[Outcome]:
        """Jobs whose compiler has taken too long."""
        for seat in self.seats:
            if seat.job is None:
                continue
            limit = self.timeout_s * (EXTENSION_PATIENCE if seat.job.extension else 1.0)
            if time.monotonic() - seat.began > limit:
                job = self._remove(seat)
                if job is not None:
                    yield Outcome(job, -1, status=Status.TIMEOUT.value, reason=f"building took longer than {limit:g} s")

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
            # It ran foreign module-level code: the process is not used again, nor are its figures.
            self._remove(seat)
            build = dataclasses.replace(
                build, compile_ms=1e3 * job.build_s, registers=None, shared_bytes=None, spill_bytes=None,
                cubin_sha=None, instructions=None,
            )  # fmt: skip
            job.build = build
        if build.machine:
            return Outcome(job, -1, infrastructure=build.error)
        if build.error is not None:
            return Outcome(job, -1, status=build.status.value, reason=build.error)
        return job

    def _bury(self, seat: Seat) -> Iterator[Outcome]:
        worker = seat.worker
        assert worker is not None
        code, said = self.spawner.exit_code(worker), worker.log_tail()
        job = self._remove(seat)
        if job is None:
            return
        if killed_from_outside(code) and job.attempts < RETRIES:
            job.attempts += 1
            self.waiting.append(job)
            return
        _, reason = judge_death(code, "the compiler")
        yield Outcome(job, -1, status=Status.COMPILE_ERROR.value, reason=f"{reason}: {said}" if said else reason)

    def _remove(self, seat: Seat) -> Job | None:
        job, seat.job = seat.job, None
        if seat.worker is not None:
            seat.worker.kill()
            seat.worker.clean()
        seat.worker = None
        return job
