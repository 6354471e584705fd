"""Lane: one device, one kernel at a time on it, and a warm spare behind the worker on duty."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import secrets
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from kbench.harness.isolate.job import Job, Outcome
from kbench.harness.isolate.protocol import ClosedError, ProtocolError
from kbench.harness.isolate.spawner import Spawner, WorkerProcess
from kbench.harness.isolate.worker import PREPARING
from kbench.harness.verify.judge import judge_death, killed_from_outside
from kbench.schemas import InfrastructureError, Status

QUEUE = 2
"""Jobs handed to the worker on duty ahead of time, so that it never waits for its parent."""
CONTEXT_SECONDS = 180.0
DYING_SECONDS = 20.0
"""Longest to wait for a killed worker; its kernel may run on the device until the driver has torn it down."""
STARTS_IN_A_ROW = 4
"""Workers that may fail to start before the device is given up."""


@dataclasses.dataclass(slots=True, eq=False)
class Runner:
    """A run worker as its lane sees it."""

    process: WorkerProcess
    ready: bool = False
    jobs: deque[Job] = dataclasses.field(default_factory=deque)
    done: int = 0
    """Kernels it has finished."""
    since: float = dataclasses.field(default_factory=time.monotonic)
    """When the current stage began."""
    solo: bool = False
    unconfirmed: dict[str, Any] | None = None
    """Results of unscreened code that wait for the worker's confirmation."""
    nonce: str = ""


class Lane:
    """Runs jobs on one device."""

    def __init__(
        self, number: int, spawner: Spawner, settings: Mapping[str, Any], stage_timeout_s: float, spares: int = 1
    ) -> None:
        """Use a device.

        Args:
            number: position among the lanes.
            spawner: starts workers.
            settings: what a run worker is started with: device, index, seeds.
            stage_timeout_s: longest a kernel may stay in one stage.
            spares: warm workers kept in reserve.
        """
        self.number, self.spawner, self.settings = number, spawner, dict(settings)
        self.stage_timeout_s, self.spares = stage_timeout_s, spares
        self.runners: list[Runner] = []
        self.waiting: deque[Job] = deque()
        self.facts: dict[str, Any] = {}
        self.sandbox: list[str] = []
        self.ceilings: dict[str, Any] | None = None
        self.failed_starts = 0
        self.busy_s = 0.0
        self.deaths = 0
        self.dying: list[WorkerProcess] = []
        """Killed workers whose end has not been seen."""

    def open(self) -> None:
        """Start the workers and wait for the first to be ready and to have measured the device's ceilings.

        Raises:
            InfrastructureError: the device cannot be used.
        """
        self._staff()
        first = self.runners[0]
        self._await(first, "ready")
        first.process.channel.send({"op": "ceilings"})
        self.ceilings = self._await(first, "ceilings")["ceilings"]

    def _await(self, runner: Runner, wanted: str) -> dict[str, Any]:
        try:
            while True:
                message = runner.process.channel.receive()
                self._greet(runner, message)
                if "broken" in message:
                    raise InfrastructureError(str(message["broken"]))
                if wanted in message:
                    return message
        except (ClosedError, ProtocolError) as error:
            raise InfrastructureError(f"the worker did not start: {runner.process.log_tail() or error}") from error

    def _greet(self, runner: Runner, message: Mapping[str, Any]) -> None:
        if "ready" in message:
            runner.ready, self.failed_starts = True, 0
            self.facts, self.sandbox = dict(message["facts"]), list(message["sandbox"])

    @property
    def load(self) -> int:
        """Jobs waiting or running."""
        return len(self.waiting) + sum(len(r.jobs) for r in self.runners)

    def channels(self) -> dict[int, Runner]:
        """Descriptors to wait on."""
        return {r.process.channel.fileno(): r for r in self.runners}

    def assign(self) -> None:
        """Hand out waiting jobs, one worker busy at a time, and none while a killed one still holds the device."""
        self._staff()
        self.dying = [w for w in self.dying if not self._gone(w)]
        if self.dying:
            return
        while self.waiting:
            busy = next((r for r in self.runners if r.jobs), None)
            alone = self.waiting[0].solo or self.waiting[0].suspected
            if alone:
                if busy is not None or not self._send_alone():
                    return
                continue
            runner = busy or next((r for r in self.runners if r.ready), None)
            if runner is None or runner.solo or len(runner.jobs) >= QUEUE:
                return
            self._send(runner, self._next_job(runner))

    def _gone(self, worker: WorkerProcess) -> bool:
        return self.spawner.has_ended(worker) or time.monotonic() - worker.killed > DYING_SECONDS

    def _next_job(self, runner: Runner) -> Job:
        """The first waiting job of the problem the worker has at hand, else the first."""
        last = runner.jobs[-1].kernel.problem_id if runner.jobs else None
        for place, job in enumerate(list(self.waiting)[:64]):
            if job.kernel.problem_id == last and not (job.solo or job.suspected):
                del self.waiting[place]
                return job
        return self.waiting.popleft()

    def _send_alone(self) -> bool:
        """Give the first job to a worker that has run nothing yet."""
        fresh = next((r for r in self.runners if r.ready and r.done == 0), None)
        if fresh is None:
            used = [r for r in self.runners if r.ready]
            if used and all(r.ready for r in self.runners):
                self._retire(used[0])
            return False
        fresh.solo = True
        self._send(fresh, self.waiting.popleft())
        return True

    def _send(self, runner: Runner, job: Job) -> None:
        if not runner.jobs:
            runner.since = time.monotonic()
        runner.jobs.append(job)
        job.stage, job.started_at = "load", _now()
        try:
            for message in job.run_messages(self.ceilings, str(self.facts["compute_capability"])):
                runner.process.channel.send(message)
        except ClosedError:
            # Noticed as a death when the channel is read.
            return

    def read(self, runner: Runner) -> Iterator[Outcome]:
        """What a worker has to say."""
        try:
            for message in runner.process.channel.drain():
                self._greet(runner, message)
                yield from self._hear(runner, message)
                if runner not in self.runners:
                    return
        except ClosedError:
            yield from self._bury(runner)
        except ProtocolError as error:
            yield from self._blame(runner, Status.REJECTED, f"forged a message to the harness: {error}")

    def _hear(self, runner: Runner, message: Mapping[str, Any]) -> Iterator[Outcome]:
        if "stage" in message and runner.jobs:
            runner.jobs[0].stage, runner.since = str(message["stage"]), time.monotonic()
        elif "results" in message and runner.jobs:
            yield from self._finish(runner, message)
        elif "confirmed" in message and runner.jobs and runner.unconfirmed is not None:
            if message["confirmed"] == runner.nonce:
                yield self._complete(runner, runner.unconfirmed)
                self._retire(runner)
        elif message.get("loaded") is False and runner.jobs:
            yield from self._blame(runner, Status(message["status"]), str(message["error"]))
        elif "poisoned" in message:
            yield from self._suspect(runner, Status(message["status"]), str(message["error"]))
        elif "broken" in message:
            yield from self._excuse(runner, str(message["broken"]))

    def _finish(self, runner: Runner, message: Mapping[str, Any]) -> Iterator[Outcome]:
        """Accept results; unscreened code must still be in step with the parent afterwards.

        Code that forged a result through the worker's own channel is given away by the worker's real result that
        follows, or by a worker that ends without answering the question.
        """
        if not runner.solo:
            yield self._complete(runner, message)
        elif runner.unconfirmed is not None:
            yield from self._blame(runner, Status.REJECTED, "sent more than one result")
        else:
            runner.unconfirmed, runner.nonce = dict(message), secrets.token_hex(8)
            with contextlib.suppress(ClosedError):
                runner.process.channel.send({"op": "confirm", "nonce": runner.nonce})

    def _complete(self, runner: Runner, message: Mapping[str, Any]) -> Outcome:
        job = runner.jobs.popleft()
        runner.done, runner.since = runner.done + 1, time.monotonic()
        self.busy_s += float(message["busy_s"])
        return Outcome(job, self.number, tuple(message["results"]), busy_s=float(message["busy_s"]))

    def expire(self) -> Iterator[Outcome]:
        """Kernels that stay in one stage too long."""
        for runner in list(self.runners):
            if not runner.jobs:
                continue
            stage = runner.jobs[0].stage
            patient = stage in (PREPARING, "context") or (stage == "load" and runner.jobs[0].extension)
            limit = CONTEXT_SECONDS if patient else self.stage_timeout_s
            if time.monotonic() - runner.since > limit:
                if machines_stage(runner.jobs[0]):
                    yield from self._excuse(runner, f"making the problem's inputs took longer than {limit:g} s")
                else:
                    yield from self._blame(runner, Status.TIMEOUT, f"took longer than {limit:g} s in {stage}")

    def close(self) -> None:
        """End all workers."""
        for runner in list(self.runners):
            self._retire(runner)

    def _bury(self, runner: Runner) -> Iterator[Outcome]:
        code, said = self.spawner.exit_code(runner.process), runner.process.log_tail()
        if not runner.jobs:
            self._fail_start(runner, said)
            return
        stage = runner.jobs[0].stage
        if machines_stage(runner.jobs[0]):
            yield from self._excuse(runner, f"worker died while making inputs: {said}")
            return
        status, reason = judge_death(code, stage)
        if killed_from_outside(code) and not runner.jobs[0].solo:
            yield from self._excuse(runner, reason)
            return
        if runner.unconfirmed is not None:
            status, reason = Status.REJECTED, f"{reason}, after results that it did not confirm"
        yield from self._suspect(runner, status, reason)

    def _fail_start(self, runner: Runner, said: str) -> None:
        started = runner.ready
        self._retire(runner)
        if not started:
            self.failed_starts += 1
            if self.failed_starts >= STARTS_IN_A_ROW:
                raise InfrastructureError(f"workers cannot start on device {self.number}: {said or 'no message'}")

    def _suspect(self, runner: Runner, status: Status, reason: str) -> Iterator[Outcome]:
        """A death in a worker that had run other kernels may be theirs: try the job once more in a fresh worker."""
        job = runner.jobs[0]
        if runner.done == 0 or job.suspected:
            yield from self._blame(runner, status, reason)
            return
        job.suspected = True
        self.waiting.appendleft(job)
        runner.jobs.popleft()
        self._drop(runner)

    def _blame(self, runner: Runner, status: Status, reason: str) -> Iterator[Outcome]:
        """The kernel at hand gets the verdict; those behind it go back into the queue."""
        job = runner.jobs.popleft()
        self._drop(runner)
        yield Outcome(job, self.number, status=status.value, reason=reason)

    def _excuse(self, runner: Runner, reason: str) -> Iterator[Outcome]:
        """The machine failed: no verdict on the kernel."""
        if not runner.jobs:
            self._fail_start(runner, reason)
            return
        job = runner.jobs.popleft()
        self._drop(runner)
        yield Outcome(job, self.number, infrastructure=reason)

    def _drop(self, runner: Runner) -> None:
        self.deaths += 1
        self.waiting.extendleft(reversed(runner.jobs))
        runner.jobs.clear()
        self._retire(runner)
        self._staff()

    def _retire(self, runner: Runner) -> None:
        runner.process.kill()
        runner.process.clean()
        if runner in self.runners:
            self.runners.remove(runner)
            if runner.process.exit_code is None:
                self.dying.append(runner.process)

    def _staff(self) -> None:
        while len(self.runners) < 1 + self.spares:
            process = self.spawner.spawn("run", **self.settings, ceilings=self.ceilings)
            self.runners.append(Runner(process))


def machines_stage(job: Job) -> bool:
    """Whether what goes wrong now is the machine's fault: no kernel is loaded, or a screened one waits for inputs."""
    return job.stage == PREPARING or (job.stage == "context" and not job.solo)


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat()
