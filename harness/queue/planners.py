"""Planners: a pool of sandboxed processes, one per kernel, that plan and compile ahead of the GPU."""

from __future__ import annotations

import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kbench.benchmark.problems.registry import edition
from kbench.harness.device.target import DeviceFacts, Target
from kbench.harness.isolate.limits import Limits, killed_from_outside, verdict_on_death
from kbench.harness.isolate.protocol import ClosedError, ProtocolError
from kbench.harness.isolate.spawner import Spawner, WorkerProcess
from kbench.harness.kernel.loading import EXTENSION_JOBS
from kbench.harness.plan.accept import accept
from kbench.harness.plan.cache import Build, BuildCache, build_id
from kbench.harness.queue.job import Job, Outcome
from kbench.schemas import Backend, Status
from kbench.schemas.ids import content_hash

RETRIES = 6
"""Times planning is repeated when its process is killed from outside."""
EXTENSION_PATIENCE, EXTENSION_BYTES = 10.0, 32 << 30
"""How many times longer a torch extension may take to build, and the memory of all its compilers."""
TIMING_PROCESSORS, MANY_PROCESSORS = 2, 8
"""Processors per GPU that planning keeps away from where there are many: for the process that times, and its judge."""
QUICK_TO_BUILD = Backend.CUDA
"""Its kernels take about a third of the time that others do."""


@dataclasses.dataclass(slots=True, eq=False)
class Seat:
    """One place in the pool: a fresh process, and the one kernel it plans."""

    worker: WorkerProcess | None = None
    ready: bool = False
    """Whether the process has said which restrictions are in force."""
    job: Job | None = None
    began: float = 0.0


class Planners:
    """Plans jobs; host code that crashes, hangs or misbehaves costs one kernel and one process."""

    def __init__(
        self,
        spawner: Spawner,
        cache: BuildCache,
        target: Target,
        facts: DeviceFacts,
        seats: int,
        timeout_s: float,
        *,
        niceness: int = 0,
        processors: Sequence[int] = (),
    ) -> None:
        """Hold up to `seats` processes, started when first needed.

        Args:
            spawner: starts them.
            cache: where builds are kept.
            target: the architecture to compile for.
            facts: what host code may ask of the device.
            seats: most processes at a time.
            timeout_s: how long planning a kernel may take.
            niceness: how far they yield to other processes.
            processors: those they may use; any if there are none.
        """
        self.spawner, self.cache, self.target, self.facts = spawner, cache, target, facts
        self.timeout_s, self._place = timeout_s, {"niceness": niceness, "processors": list(processors)}
        self.seats = [Seat() for _ in range(seats)]
        self.waiting: deque[Job] = deque()
        self.on_stage: Callable[[str], None] | None = None
        """Called with `plan` when a kernel's planning begins."""
        self.sandbox: list[str] = []
        """Restrictions that were in force when the last process began to plan."""

    @property
    def load(self) -> int:
        """Jobs waiting or being planned."""
        return len(self.waiting) + sum(seat.job is not None for seat in self.seats)

    def identity(self, job: Job) -> str:
        """The id of a job's build."""
        stated = job.kernel.workloads_json
        version = edition(job.kernel.problem_id) if stated is None else content_hash("stated", stated)
        if job.workloads is not None:
            version = content_hash("some workloads", version, *job.workloads)
        return build_id(job.kernel.kernel_id, self.target, self.facts, edition=version)

    def add(self, job: Job) -> bool:
        """Take a job in; True when the cache had its build, so that it is ready at once."""
        build = None if job.extension else self.cache.get(self.identity(job))
        if build is not None and build.answers(count_work=job.count_work):
            job.build = build
            return True
        self.waiting.append(job)
        return False

    def channels(self) -> dict[int, Seat]:
        """Descriptors to wait on."""
        return {seat.worker.channel.fileno(): seat for seat in self.seats if seat.worker is not None}

    def assign(self, *, hurry: bool = False) -> None:
        """Give waiting jobs to free seats; in a hurry, quickly planned jobs first."""
        for seat in self.seats:
            if not self.waiting:
                return
            if seat.job is not None:
                continue
            if self.on_stage is not None:
                self.on_stage("plan")
            job = self._next(hurry=hurry)
            if job.extension:
                # The process that was made ready has the limits of a plan.
                self._end(seat)
            if seat.worker is None:
                seat.worker = self._spawn(extension=bool(job.extension))
            seat.job, seat.began, job.stage = job, time.monotonic(), "plan"
            try:
                seat.worker.channel.send(self._message(job))
            except ClosedError:
                # Noticed as a death when the channel is read.
                continue

    def prepare(self) -> None:
        """Have a process ready in its sandbox, so that the next job need not wait for one."""
        if self.seats[0].worker is None:
            self.seats[0].worker = self._spawn(extension=False)

    def _spawn(self, *, extension: bool) -> WorkerProcess:
        """A process with limits on all that it starts; a torch extension is built by several at a time."""
        limits = Limits(2 * self.timeout_s)
        if extension:
            limits = Limits(EXTENSION_JOBS * EXTENSION_PATIENCE * self.timeout_s, nbytes=EXTENSION_BYTES)
        return self.spawner.spawn("plan", limits=dataclasses.asdict(limits), **self._place)

    def _next(self, *, hurry: bool) -> Job:
        quick = (
            at for at, job in enumerate(self.waiting) if job.kernel.backend is QUICK_TO_BUILD and not job.extension
        )
        place = next(quick, 0) if hurry else 0
        job = self.waiting[place]
        del self.waiting[place]
        return job

    def _message(self, job: Job) -> dict[str, object]:
        return dataclasses.asdict(job.kernel) | {
            "target": [self.target.major, self.target.minor],
            "facts": dataclasses.asdict(self.facts),
            "workloads": job.workloads,
            "count_work": job.count_work,
            "extension": job.extension,
            "cache": str(self.cache.folder),
        }

    def read(self, seat: Seat) -> Iterator[Outcome | Job]:
        """The messages of a seat: a planned job, or the outcome of one that cannot be run."""
        assert seat.worker is not None
        try:
            for message in seat.worker.channel.drain():
                if "planned" in message and seat.job is not None:
                    planned = message["planned"]
                    yield self._finish(seat, planned if isinstance(planned, dict) else {})
                    return
                self._take_greeting(seat, message)
        except ClosedError:
            yield from self._handle_death(seat)
        except ProtocolError as error:
            job = self._remove(seat)
            if job is not None:
                reason = f"forged a message to the harness: {error}"
                job.build = Build(self.identity(job), Status.REJECTED.value, reason)
                yield job

    def _take_greeting(self, seat: Seat, message: dict[str, Any]) -> None:
        """Take the one message that comes before a plan, and before foreign code could send any."""
        if seat.ready or "ready" not in message:
            raise ProtocolError("it is neither a plan nor the one greeting")
        seat.ready, self.sandbox = True, list(message["sandbox"])

    def expire(self) -> Iterator[Outcome]:
        """Jobs whose planning has taken too long."""
        for seat in self.seats:
            if seat.job is None:
                continue
            job, limit = seat.job, self.timeout_s * (EXTENSION_PATIENCE if seat.job.extension else 1.0)
            if time.monotonic() - seat.began > limit:
                self._remove(seat)
                reason = f"planning and compiling took longer than {limit:g} s"
                yield Outcome(job, -1, status=Status.TIMEOUT.value, reason=reason)

    def close(self) -> None:
        """End all processes."""
        for seat in self.seats:
            self._remove(seat)

    def _finish(self, seat: Seat, message: dict[str, object]) -> Outcome | Job:
        job = seat.job
        assert job is not None
        spent = time.monotonic() - seat.began
        # The process ran foreign code and is not used again.
        self._remove(seat)
        if job.extension and message.get("machine"):
            return Outcome(job, -1, infrastructure=str(message["error"]))
        build, cubins = accept(message, self.identity(job), job.kernel, self.target, 1e3 * spent, job.workloads)
        if not job.extension:
            self.cache.put(build, cubins)
        job.build, job.build_s = build, job.build_s + spent
        return job

    def _handle_death(self, seat: Seat) -> Iterator[Outcome | Job]:
        worker = seat.worker
        assert worker is not None
        code, last_words = self.spawner.exit_code(worker), worker.log_tail()
        job = self._remove(seat)
        if job is None:
            return
        if worker.excess is not None:
            job.build = Build(self.identity(job), *worker.excess)
            yield job
            return
        if killed_from_outside(code) and job.plan_attempts < RETRIES:
            job.plan_attempts += 1
            self.waiting.append(job)
            return
        status, reason = verdict_on_death(code, "planning")
        text = f"{reason}: {last_words}" if last_words else reason
        job.build = Build(self.identity(job), status.value, text[:2000], unplannable=status is Status.LAUNCH_ERROR)
        yield job

    def _remove(self, seat: Seat) -> Job | None:
        """End a seat's process; the job that it had."""
        job, seat.job = seat.job, None
        self._end(seat)
        return job

    def _end(self, seat: Seat) -> None:
        if seat.worker is not None:
            seat.worker.kill()
            seat.worker.clean()
        seat.worker, seat.ready = None, False


def planning_processors(devices: int) -> list[int]:
    """The processors that planning may use."""
    mine, kept = sorted(os.sched_getaffinity(0)), TIMING_PROCESSORS * devices
    return mine[:-kept] if len(mine) >= max(MANY_PROCESSORS, 2 * kept) else mine
