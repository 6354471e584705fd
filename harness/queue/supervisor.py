"""Supervisor: moves jobs from planners to devices and outcomes out, in one loop without threads."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterable, Iterator

from kbench.harness.queue.device_queue import DeviceQueue
from kbench.harness.queue.job import Job, Outcome
from kbench.harness.queue.planners import Planners
from kbench.harness.settings import HarnessSettings
from kbench.schemas import Status

AHEAD = 6
"""Jobs taken in advance for each planning process."""
FEW_READY = 8
"""Planned kernels per device below which those come first that are planned soon."""
READY_AHEAD = 256
"""Planned kernels that may wait for a device before no more are taken in."""
TICK_SECONDS, SHORT_TICK_SECONDS = 0.05, 0.005
"""Longest time between two looks at deadlines; short while a device waits for a worker to end."""
EXTENSION = "torch extension"
"""The reason given when a kernel that compiles one cannot be planned."""


class Supervisor:
    """Runs jobs to their outcomes."""

    def __init__(self, planners: Planners, queues: list[DeviceQueue], settings: HarnessSettings) -> None:
        """Use these planners and devices."""
        self.planners, self.queues, self.settings = planners, queues, settings
        self.dry = all(queue.gpu is None for queue in queues)
        """Without a GPU every kernel runs beside its judge, on the CPU."""
        self.finished: deque[Outcome] = deque()
        self.starved = False

    def run(self, jobs: Iterable[Job | None]) -> Iterator[Outcome | None]:
        """Outcomes in the order they are reached.

        A source that has nothing now but may have something later yields None; so does this, once per turn,
        until it has.
        """
        source: Iterator[Job | None] | None = iter(jobs)
        while True:
            if source is not None and self._take(source):
                source = None
            self.planners.assign(hurry=self._ready() < FEW_READY * len(self.queues))
            for queue in self.queues:
                queue.assign()
            if source is None and not (self.finished or self.planners.load or self._ready()):
                return
            self._listen()
            while self.finished:
                yield self.finished.popleft()
            if self.starved:
                yield None

    def _ready(self) -> int:
        """Planned kernels that wait for a device or are on one."""
        return sum(queue.load for queue in self.queues)

    def _take(self, source: Iterator[Job | None]) -> bool:
        """Take jobs in while there is room; True when the source has ended."""
        room = AHEAD * len(self.planners.seats)
        self.starved = False
        while self.planners.load < room and self._ready() < READY_AHEAD:
            try:
                job = next(source)
            except StopIteration:
                return True
            if job is None:
                self.starved = True
                return False
            for queue in self.queues:
                queue.foresee(job)
            if job.rival is not None:
                self._queue(job)
            elif job.build is not None or self.planners.add(job):
                self._route(job)
        return False

    def _route(self, job: Job) -> None:
        """Finish a job whose build is known, or send it to a device.

        What cannot be planned runs beside its judge where that is allowed; a torch extension is built for it first.
        """
        build = job.build
        assert build is not None
        beside_its_judge = build.unplannable and self.settings.allow_unscreened
        if beside_its_judge and EXTENSION in (build.error or "") and job.extension is None:
            job.extension = str(self.planners.cache.extension_folder(job.kernel.kernel_id))
            self.planners.add(job)
        elif build.error is not None and not beside_its_judge:
            self.finished.append(Outcome(job, -1, status=build.status, reason=build.error))
        elif job.compile_only:
            self.finished.append(Outcome(job, -1, ({"workload": "tiny", "status": Status.OK.value},)))
        else:
            if beside_its_judge or self.dry:
                job.process = True
            self._queue(job)

    def _queue(self, job: Job) -> None:
        min(self.queues, key=lambda queue: queue.load).waiting.append(job)

    def _listen(self) -> None:
        seats = self.planners.channels()
        workers = {fd: (queue, worker) for queue in self.queues for fd, worker in queue.channels().items()}
        dying = any(queue.dying for queue in self.queues)
        timeout = 0.0 if self.finished else SHORT_TICK_SECONDS if dying else TICK_SECONDS
        ready, _, _ = select.select([*seats, *workers], [], [], timeout)
        for descriptor in ready:
            if descriptor in seats:
                self._accept(self.planners.read(seats[descriptor]))
            else:
                queue, worker = workers[descriptor]
                if worker in queue.workers:
                    for outcome in queue.read(worker):
                        self._finish_or_retry(outcome)
        self._accept(self.planners.expire())
        for queue in self.queues:
            for outcome in queue.expire():
                self._finish_or_retry(outcome)

    def _accept(self, planned: Iterable[Job | Outcome]) -> None:
        """Go on with jobs that are planned, and pass on the outcomes of those that cannot be."""
        for one in planned:
            if isinstance(one, Job):
                self._route(one)
            else:
                self.finished.append(one)

    def _finish_or_retry(self, outcome: Outcome) -> None:
        """Pass an outcome on, unless the machine failed and the job may be tried again."""
        job = outcome.job
        if outcome.infrastructure is not None and job.attempts < self.settings.retries:
            job.attempts += 1
            # Prefer another device: a fault tends to stay where it is.
            others = [queue for queue in self.queues if queue.number != outcome.device] or self.queues
            min(others, key=lambda queue: queue.load).waiting.append(job)
            return
        self.finished.append(outcome)
