"""Device queue: one device, one kernel at a time on it, and a warm spare for the worker on duty.

Planned kernels share a worker that never loads foreign Python. A kernel whose host code runs beside its judge gets a
fresh worker of its own.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kbench.harness.device.gpu import Gpu
from kbench.harness.isolate.limits import killed_from_outside, verdict_on_death
from kbench.harness.isolate.protocol import ClosedError, ProtocolError
from kbench.harness.isolate.spawner import OracleProcess, Spawner, WorkerProcess
from kbench.harness.plan.cache import BuildCache
from kbench.harness.queue.job import Job, Outcome
from kbench.harness.settings import HarnessSettings
from kbench.harness.worker.interpreter import IN_THE_INTERPRETER
from kbench.harness.worker.runner import PREPARING
from kbench.schemas import InfrastructureError, Status

AHEAD = 2
"""Planned jobs handed to the worker on duty ahead of time, so that it never waits for its parent."""
CONTEXT_SECONDS = 180.0
DYING_SECONDS = 20.0
"""Longest wait for a killed worker; its kernel may run on the device until the driver has torn it down."""
KILLS = 6
"""Times a worker with foreign code in it may be killed by a signal before the code is blamed."""
MOST_STAGES = 64
"""Stages that a worker with foreign code in it may report of its job: it could go on for ever."""
STARTS_IN_A_ROW = 4
"""Workers that may fail to start before the device is given up."""


@dataclasses.dataclass(slots=True, eq=False)
class DeviceWorker:
    """A worker on the device, as the queue sees it."""

    process: WorkerProcess
    role: str
    ready: bool = False
    jobs: deque[Job] = dataclasses.field(default_factory=deque)
    done: int = 0
    """Kernels it has finished."""
    since: float = dataclasses.field(default_factory=time.monotonic)
    """When the current stage began."""
    stages: int = 0
    """Stages of the current job so far."""


class DeviceQueue:
    """Runs jobs on one device."""

    def __init__(
        self,
        number: int,
        gpu: Gpu | None,
        seeds: Sequence[int],
        spawner: Spawner,
        cache: BuildCache,
        settings: HarnessSettings,
    ) -> None:
        """Use a device.

        Args:
            number: position among the queues.
            gpu: the device; None for the CPU, in dry runs.
            seeds: of the inputs that are drawn for every workload.
            spawner: starts workers.
            cache: where machine code lies.
            settings: how the device is used.
        """
        self.number, self.gpu, self.seeds = number, gpu, tuple(seeds)
        self.spawner, self.cache, self.settings = spawner, cache, settings
        self.role = "run" if gpu is None else "replay"
        """The kind of worker kept ready."""
        self.workers: list[DeviceWorker] = []
        self.waiting: deque[Job] = deque()
        self.facts: dict[str, Any] = {}
        self.sandbox: list[str] = []
        self.ceilings: dict[str, Any] | None = None
        self.failed_starts = 0
        self.context_s: dict[str, float] = {}
        """The longest time that making ready for a problem took: its inputs, their answers, and its reference."""
        self.dying: list[WorkerProcess] = []
        """Killed workers whose end has not been seen."""
        self.on_stage: Callable[[str], None] | None = None
        """Called with the name of each step that begins: a worker's start, and the stages of a job."""
        self.on_workload: Callable[[Job, dict[str, Any]], None] | None = None
        """Called with a job's result on one workload as soon as it is known, before those of the other workloads."""
        self._oracle: OracleProcess | None = None
        self._begun = False
        """Whether a worker has finished a job or died."""
        self._foreseen: dict[str, Any] | None = None
        """The task of the first job that is being planned."""

    def start(self) -> None:
        """Start a worker and the process that holds the answers, and wait for neither.

        Raises:
            InfrastructureError: no process can be started.
        """
        if self.gpu is not None and not self.settings.fenced:
            self._oracle = OracleProcess(self.spawner, str(self.gpu), self.settings.max_memory_bytes)
        self._start(self.role, early=self.gpu is not None)

    def open(self) -> None:
        """Wait until the worker knows its device: from then on kernels can be planned, while it gets ready.

        Raises:
            InfrastructureError: the device cannot be used.
        """
        while not self.facts:
            self._hear(self.workers[0])

    def wait(self) -> None:
        """Wait until the worker has measured the device's ceilings.

        Raises:
            InfrastructureError: the device cannot be used.
        """
        while self.ceilings is None:
            if not self.workers:
                self._start(self.role)
            self._hear(self.workers[0])

    def _hear(self, worker: DeviceWorker) -> None:
        """Take one message of a worker that is getting ready."""
        try:
            message = worker.process.channel.receive()
            self._take_greeting(worker, message)
        except (ClosedError, ProtocolError) as error:
            raise InfrastructureError(f"the worker did not start: {worker.process.log_tail() or error}") from error
        if "broken" in message:
            raise InfrastructureError(str(message["broken"]))

    def _take_greeting(self, worker: DeviceWorker, message: Mapping[str, Any]) -> None:
        """Take in a worker's messages before its first job: its device's facts, that it is ready, and the ceilings.

        The first worker draws the inputs of the first job's problem while that is planned.
        """
        # A kernel that runs there can send messages too, so only those sent before it was loaded count.
        if worker.ready:
            return
        if "facts" in message:
            self.facts = dict(message["facts"])
        if "ready" in message:
            self.sandbox, self.failed_starts = list(message["sandbox"]), 0
            worker.ready = self.ceilings is not None
            if not worker.ready:
                self._tell("measure the device's limits")
                worker.process.channel.send({"op": "ceilings"})
        elif "ceilings" in message:
            self.ceilings = self.ceilings or message["ceilings"]
            worker.ready = self._foreseen is None or worker.role != "replay"
            if not worker.ready:
                self._tell("draw inputs")
                worker.process.channel.send({"op": "foresee", "task": self._foreseen})
        elif "foreseen" in message:
            worker.ready = True

    def foresee(self, job: Job) -> None:
        """Name the job that will come first, as long as no worker is ready for it."""
        if self._foreseen is None and self.ceilings is None and job.task.get("problem_id"):
            self._foreseen = job.task

    def _tell(self, stage: str) -> None:
        if self.on_stage is not None:
            self.on_stage(stage)

    @property
    def spares(self) -> int:
        """Warm workers kept in reserve."""
        usual = 1 if self.gpu is None else 2
        return usual if self.settings.spares is None else self.settings.spares

    @property
    def load(self) -> int:
        """Jobs waiting or running."""
        return len(self.waiting) + sum(len(worker.jobs) for worker in self.workers)

    def channels(self) -> dict[int, DeviceWorker]:
        """Descriptors to wait on."""
        return {worker.process.channel.fileno(): worker for worker in self.workers}

    def assign(self) -> None:
        """Hand out waiting jobs, one worker busy at a time, and none while a killed one still holds the device.

        Raises:
            InfrastructureError: the process that holds the answers could not start.
        """
        self._start_missing()
        self.dying = [
            process
            for process in self.dying
            if not self.spawner.has_ended(process) and time.monotonic() - process.killed <= DYING_SECONDS
        ]
        if self.dying:
            return
        while self.waiting:
            busy = next((worker for worker in self.workers if worker.jobs), None)
            if needs_fresh_worker(self.waiting[0]):
                fresh = self._fresh("run" if self.waiting[0].process else "replay")
                if fresh is not None and busy is None:
                    self._send(fresh, self.waiting.popleft())
                    continue
                # A single worker must run dry to be replaced.
                if fresh is not None or self.dying or not self.spares or not self._overtake():
                    return
            worker = busy or next((w for w in self.workers if w.ready and w.role == "replay"), None)
            if worker is None or worker.role != "replay" or len(worker.jobs) >= AHEAD:
                return
            if any(job.alone for job in worker.jobs):
                # The worker may well die; the inputs that others have ready are worth more than a job ahead.
                return
            self._send(worker, self._next_job(worker))

    def _next_job(self, worker: DeviceWorker) -> Job:
        """The first waiting job for the worker's current problem, else the first of all."""
        last = worker.jobs[-1].kernel.problem_id if worker.jobs else None
        for place, job in enumerate(list(self.waiting)[:64]):
            if job.kernel.problem_id == last and not needs_fresh_worker(job):
                del self.waiting[place]
                return job
        return self.waiting.popleft()

    def _fresh(self, role: str) -> DeviceWorker | None:
        """A worker that has run nothing yet; where there is none and none is starting, one is made to start."""
        own = [worker for worker in self.workers if worker.role == role]
        idle = [worker for worker in own if worker.ready and not worker.jobs]
        fresh = next((worker for worker in idle if worker.done == 0), None)
        if fresh is None and all(worker.ready for worker in own):
            # The first has inputs ready; it goes only when there is no other.
            used = [worker for worker in idle if worker is not own[0] or len(own) == 1]
            if used:
                self._retire(used[-1])
            if used or not own:
                self._start(role)
        return fresh

    def _overtake(self) -> bool:
        """Bring a job to the front that needs no fresh worker, while none is ready for the first; False without one."""
        for place, job in enumerate(self.waiting):
            if not needs_fresh_worker(job):
                del self.waiting[place]
                self.waiting.appendleft(job)
                return True
        return False

    def _send(self, worker: DeviceWorker, job: Job) -> None:
        if self._oracle is not None:
            self._oracle.wait()
        if not worker.jobs:
            worker.since = time.monotonic()
        worker.jobs.append(job)
        job.stage, job.started_at = "load", datetime.datetime.now(datetime.UTC).isoformat()
        try:
            worker.process.channel.send(self._message(job))
        except ClosedError:
            # Noticed as a death when the channel is read.
            return

    def _message(self, job: Job) -> dict[str, Any]:
        jobs = job.profiled or ((job,) if job.rival is None else (job, job.rival))
        return {
            "op": "profile" if job.profiled else "measure",
            "task": job.task,
            "target": str(self.facts["compute_capability"]),
            "ceilings": self.ceilings,
            "threshold": job.threshold,
            "on_workload": self.on_workload is not None,
            "kernels": [self._entry(each, process=job.process) for each in jobs],
        }

    def _entry(self, job: Job, *, process: bool) -> dict[str, Any]:
        """The part of a kernel that its worker needs: the text where host code runs there, else plans and code."""
        if process:
            return dataclasses.asdict(job.kernel) | {"extension": job.extension}
        assert job.build is not None
        code = self.cache.code_files(job.build)
        where = {"problem_id": job.kernel.problem_id, "workloads": job.task.get("workloads")}
        return where | {"plans": job.build.plans, "code": code}

    def read(self, worker: DeviceWorker) -> Iterator[Outcome]:
        """Handle the messages of a worker."""
        try:
            for message in worker.process.channel.drain():
                self._take_greeting(worker, message)
                yield from self._handle(worker, message)
                if worker not in self.workers:
                    return
        except ClosedError:
            yield from self._handle_death(worker)
        except (ProtocolError, LookupError, TypeError, ValueError) as error:
            if worker.jobs:
                yield from self._fail(worker, Status.REJECTED, f"forged a message to the harness: {error}")
            else:
                self._fail_start(worker, str(error))

    def _handle(self, worker: DeviceWorker, message: Mapping[str, Any]) -> Iterator[Outcome]:
        if "stage" in message and worker.jobs:
            job, now = worker.jobs[0], time.monotonic()
            if worker.role == "replay" and job.stage == "context":
                spent_s = max(self.context_s.get(job.kernel.problem_id, 0.0), now - worker.since)
                self.context_s[job.kernel.problem_id] = spent_s
            job.stage, worker.since = str(message["stage"]), now
            worker.stages += 1
            self._tell(job.stage)
            if worker.stages > MOST_STAGES and worker.role == "run":
                yield from self._fail(worker, Status.REJECTED, "reported stages without end")
        elif "measured" in message and worker.jobs and worker.role == "replay" and self.on_workload is not None:
            (result,) = trusted([message["measured"]], worker.role)
            self.on_workload(worker.jobs[0], result)
        elif "results" in message and worker.jobs:
            busy_s, results = float(message["busy_s"]), trusted(message["results"], worker.role)
            job = worker.jobs.popleft()
            worker.done, worker.since, worker.stages = worker.done + 1, time.monotonic(), 0
            self._begun = True
            yield Outcome(job, self.number, results, busy_s=busy_s)
            if worker.role != "replay" or job.profiled:
                # Foreign code ran in it, which no other kernel may meet; or launches take longer since it was profiled.
                self._retire(worker)
        elif message.get("loaded") is False and worker.jobs:
            yield from self._fail(worker, Status(message["status"]), str(message["error"]))
        elif "poisoned" in message:
            yield from self._retry_alone(worker, Status(message["status"]), str(message["error"]))
        elif "broken" in message:
            yield from self._fail_machine(worker, str(message["broken"]))

    def expire(self) -> Iterator[Outcome]:
        """Handle kernels that stay in one stage too long."""
        for worker in list(self.workers):
            if not worker.jobs:
                continue
            stage = worker.jobs[0].stage
            patient = stage in (PREPARING, "context") or (stage == "load" and worker.jobs[0].extension)
            # A kernel does not answer for the time its held-out inputs and their answers take.
            own_s = self.settings.timeout_s + self.context_s.get(worker.jobs[0].kernel.problem_id, 0.0)
            if worker.role == "run" and stage.startswith(("load", "verify")):
                # An unplanned kernel is compiled here, when it is loaded and at its first call with each size.
                own_s += self.settings.build_timeout_s
            limit = CONTEXT_SECONDS if patient else own_s
            if time.monotonic() - worker.since > limit:
                if machines_stage(worker.jobs[0]):
                    yield from self._fail_machine(worker, f"making the problem's inputs took longer than {limit:g} s")
                else:
                    yield from self._fail(worker, Status.TIMEOUT, f"took longer than {limit:g} s in {stage}")

    def close(self) -> None:
        """End all workers."""
        for worker in list(self.workers):
            self._retire(worker)
        if self._oracle is not None:
            self._oracle.close()
            self._oracle = None

    def _handle_death(self, worker: DeviceWorker) -> Iterator[Outcome]:
        code, last_words = self.spawner.exit_code(worker.process), worker.process.log_tail()
        if not worker.jobs:
            self._fail_start(worker, last_words)
            return
        stage = worker.jobs[0].stage
        if machines_stage(worker.jobs[0]):
            yield from self._fail_machine(worker, f"worker died while making inputs: {last_words}")
            return
        status, reason = verdict_on_death(code, stage)
        if worker.role != "replay" and self.gpu is None and "triton" in worker.jobs[0].kernel.source:
            reason = f"{reason} {IN_THE_INTERPRETER}"
        if killed_from_outside(code) and worker.role == "replay":
            yield from self._fail_machine(worker, reason)
            return
        if killed_from_outside(code) and worker.jobs[0].kills < KILLS:
            # Foreign code may have done it, or somebody else: it is blamed if it happens every time.
            job = worker.jobs.popleft()
            job.kills += 1
            self.waiting.appendleft(job)
            self._drop(worker)
            return
        yield from self._retry_alone(worker, status, reason)

    def _fail_start(self, worker: DeviceWorker, last_words: str) -> None:
        started = worker.ready
        self._retire(worker)
        if not started:
            self.failed_starts += 1
            if self.failed_starts >= STARTS_IN_A_ROW:
                raise InfrastructureError(f"workers cannot start on device {self.number}: {last_words or 'no message'}")

    def _retry_alone(self, worker: DeviceWorker, status: Status, reason: str) -> Iterator[Outcome]:
        """Other kernels that the worker had run may have caused its death: try the job once more in a fresh worker."""
        job = worker.jobs[0]
        if worker.done == 0 or job.alone:
            yield from self._fail(worker, status, reason)
            return
        job.alone = True
        self.waiting.appendleft(job)
        worker.jobs.popleft()
        self._drop(worker)

    def _fail(self, worker: DeviceWorker, status: Status, reason: str) -> Iterator[Outcome]:
        """The current kernel gets the verdict; those after it go back into the queue."""
        job = worker.jobs.popleft()
        self._drop(worker)
        yield Outcome(job, self.number, status=status.value, reason=reason)

    def _fail_machine(self, worker: DeviceWorker, reason: str) -> Iterator[Outcome]:
        """The machine failed: no verdict on the kernel."""
        if not worker.jobs:
            self._fail_start(worker, reason)
            return
        job = worker.jobs.popleft()
        self._drop(worker)
        yield Outcome(job, self.number, infrastructure=reason)

    def _drop(self, worker: DeviceWorker) -> None:
        self._begun = True
        self.waiting.extendleft(reversed(worker.jobs))
        worker.jobs.clear()
        self._retire(worker)
        self._start_missing()

    def _retire(self, worker: DeviceWorker) -> None:
        worker.process.kill()
        worker.process.clean()
        if worker in self.workers:
            self.workers.remove(worker)
            if worker.process.exit_code is None:
                self.dying.append(worker.process)

    def _start_missing(self) -> None:
        """Keep the usual workers ready, and a spare for kernels that each need a fresh one.

        On a GPU spares start when jobs wait and a worker has finished one or died, or one needs a fresh worker:
        contexts that are made at the same time delay each other, and the first figure.
        """
        role = self.role
        wanted = (self._begun and self.waiting) or any(job.alone for job in self.waiting)
        spares = self.spares if wanted or self.gpu is None else 0
        while sum(worker.role == role for worker in self.workers) < 1 + spares:
            self._start(role)
        alone = min(sum(job.process for job in self.waiting), 1 + self.spares)
        while sum(worker.role == "run" for worker in self.workers) < alone:
            self._start("run")

    def _start(self, role: str, *, early: bool = False) -> None:
        gpu = self.gpu
        settings: dict[str, Any] = {
            "device": "cpu" if gpu is None else "cuda",
            "gpu": str(gpu),
            "seeds": list(self.seeds),
            "fenced": self.settings.fenced,
            "ceilings": self.ceilings,
            "early": early,
            "memory_bytes": self.settings.max_memory_bytes,
        }
        if role == "replay" and self._oracle is not None:
            settings["oracle"] = self._oracle.connection
        self.workers.append(DeviceWorker(self.spawner.spawn(role, **settings), role))


def needs_fresh_worker(job: Job) -> bool:
    """Whether a job is given to a worker that has run nothing yet."""
    return job.process or job.alone or bool(job.profiled)


def trusted(results: Sequence[Mapping[str, Any]], role: str) -> tuple[dict[str, Any], ...]:
    """Results with the trust that the worker's kind deserves, whatever they say of it themselves."""
    trust = "plan" if role == "replay" else "process"
    return tuple({**one, "workload": str(one["workload"]), "trust": trust} for one in results)


def machines_stage(job: Job) -> bool:
    """Whether a failure now is the machine's fault: no kernel is running, or a planned one waits for inputs."""
    return job.stage == PREPARING or (job.stage == "context" and not job.process)
