"""Supervisor: moves jobs from builders to lanes and outcomes out, in one loop without threads."""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterable, Iterator

from kbench.harness.isolate.builders import Builders, unbuilt
from kbench.harness.isolate.job import Job, Outcome
from kbench.harness.isolate.lane import Lane
from kbench.schemas import Status

AHEAD = 3
"""Jobs taken in advance for each building process."""
READY_AHEAD = 256
"""Built kernels that may wait for a device before no more are taken in."""
TICK_SECONDS = 0.05


class Supervisor:
    """Runs jobs to their outcomes."""

    def __init__(self, builders: Builders, lanes: list[Lane], retries: int = 2) -> None:
        """Use these builders and devices; work the machine fails is tried again up to `retries` times."""
        self.builders, self.lanes, self.retries = builders, lanes, retries
        self.finished: deque[Outcome] = deque()
        self.starved = False

    def run(self, jobs: Iterable[Job | None]) -> Iterator[Outcome | None]:
        """Outcomes in the order they are reached.

        A source that has nothing to offer now but may have later yields None; so does this, once a turn, until it has.
        """
        source: Iterator[Job | None] | None = iter(jobs)
        while True:
            if source is not None and self._take(source):
                source = None
            self.builders.assign()
            for lane in self.lanes:
                lane.assign()
            if source is None and not self.finished and not self._loaded():
                return
            self._listen()
            while self.finished:
                yield self.finished.popleft()
            if self.starved:
                yield None

    def _loaded(self) -> bool:
        return bool(self.builders.load or any(lane.load for lane in self.lanes))

    def _take(self, source: Iterator[Job | None]) -> bool:
        """Take jobs in while there is room; True when the source has ended."""
        room = AHEAD * len(self.builders.seats)
        self.starved = False
        while self.builders.load < room and sum(lane.load for lane in self.lanes) < READY_AHEAD:
            try:
                job = next(source)
            except StopIteration:
                return True
            if job is None:
                self.starved = True
                return False
            if job.solo and not job.extension:
                # No build process loads unscreened code: it is compiled where it runs.
                job.build = unbuilt(job, self.builders.target)
                self._built(job)
            elif self.builders.add(job):
                self._built(job)
        return False

    def _built(self, job: Job) -> None:
        assert job.build is not None
        if job.build.error is not None:
            self.finished.append(Outcome(job, -1, status=job.build.status.value, reason=job.build.error))
        elif job.compile_only:
            self.finished.append(Outcome(job, -1, ({"workload": "tiny", "status": Status.OK.value},)))
        else:
            min(self.lanes, key=lambda lane: lane.load).waiting.append(job)

    def _listen(self) -> None:
        seats = self.builders.channels()
        runners = {fd: (lane, runner) for lane in self.lanes for fd, runner in lane.channels().items()}
        timeout = 0.0 if self.finished else TICK_SECONDS
        ready, _, _ = select.select([*seats, *runners], [], [], timeout)
        for descriptor in ready:
            if descriptor in seats:
                for found in self.builders.read(seats[descriptor]):
                    self._accept(found)
            else:
                lane, runner = runners[descriptor]
                if runner in lane.runners:
                    for outcome in lane.read(runner):
                        self._settle(outcome)
        for found in self.builders.expire():
            self._accept(found)
        for lane in self.lanes:
            for outcome in lane.expire():
                self._settle(outcome)

    def _accept(self, found: Job | Outcome) -> None:
        if isinstance(found, Job):
            self._built(found)
        else:
            self.finished.append(found)

    def _settle(self, outcome: Outcome) -> None:
        """Pass an outcome on, unless the machine failed and the job may be tried again."""
        job = outcome.job
        if outcome.infrastructure is not None and job.attempts < self.retries:
            job.attempts += 1
            # Another device if there is one: a fault tends to stay where it is.
            others = [lane for lane in self.lanes if lane.number != outcome.lane] or self.lanes
            min(others, key=lambda lane: lane.load).waiting.append(job)
            return
        self.finished.append(outcome)
