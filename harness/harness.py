"""Harness: kernels in, measurements out.

with Harness(gpu=0) as harness:
    for measurement in harness.measure(kernels):
        ...
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from kbench.benchmark.problems import problem
from kbench.harness.device.environment import make_environment
from kbench.harness.device.floor import Ceilings
from kbench.harness.device.gpu import Gpu
from kbench.harness.device.target import H200, DeviceFacts, Target
from kbench.harness.isolate.spawner import Spawner, shared_spawner
from kbench.harness.kernel.adapters import adapter_for, refusal
from kbench.harness.plan.cache import Build, BuildCache
from kbench.harness.queue.device_queue import DeviceQueue
from kbench.harness.queue.job import Job, Outcome
from kbench.harness.queue.planners import Planners, planning_processors
from kbench.harness.queue.supervisor import Supervisor
from kbench.harness.record import failure, make_measurement, second_times
from kbench.harness.settings import HarnessSettings
from kbench.harness.timing.second_clock import SecondTimes
from kbench.harness.worker.execute import MeasureTask
from kbench.harness.workloads import chosen_sizes, fitting, refuse_too_large, refuse_without_gpu
from kbench.loaders.storage.scratch import cache_folder
from kbench.schemas import (
    DataError,
    Environment,
    InfrastructureError,
    KernelSource,
    Measurement,
    Status,
    UserError,
    require_package,
)

INPUT_SETS = 3
"""Random inputs drawn per workload."""
GpuChoice = int | str | Gpu
"""A GPU by its index, by what `--gpu` takes, or read already."""
BUILDERS, YIELDING = 16, 10
"""Most processes that plan kernels ahead of the device, and their niceness beside a GPU: the process that times needs a
processor whenever it asks for one."""
PROFILED = 256
"""Kernels that the profiler times in one process: that starts once for all of them, and ends with them."""
UNPLANNED = "cannot be planned: "
"""Start of the reason why a kernel needs --allow-unscreened."""


@dataclasses.dataclass(slots=True)
class Tally:
    """Where the time went."""

    kernels: int = 0
    build_s: float = 0.0
    verify_s: float = 0.0
    time_s: float = 0.0
    busy_s: float = 0.0


class Harness:
    """Builds, verifies and times kernels on local devices."""

    spawner_type: type[Spawner] | None = None
    """How worker processes are started; by default through zygotes that all harnesses of a process share."""

    def __init__(
        self,
        gpu: GpuChoice | Sequence[GpuChoice] | None = 0,
        *,
        half_width: float | None = None,
        settings: HarnessSettings | None = None,
        **fields: Any,
    ) -> None:
        """Prepare to measure; workers start with the first call that needs them.

        Args:
            gpu: one GPU or several, as `--gpu` names them: 0, "0:64" or "MIG-…"; None measures on the CPU, for dry
                runs.
            half_width: relative half-width of the 95 % interval at which timing stops; 0.01 unless settings say
                otherwise.
            settings: how to measure; every field has a sensible default.
            **fields: fields of `HarnessSettings`, which replace those of `settings`.
        """
        self.settings = dataclasses.replace(settings or HarnessSettings(), **fields)
        if half_width is not None:
            if not 0.0 < half_width <= 1.0:
                raise UserError(f"half_width is {half_width!r}; give a share of the time such as 0.01, at most 1")
            timing = dataclasses.replace(self.settings.timing, half_width=half_width)
            self.settings = dataclasses.replace(self.settings, timing=timing)
        chosen = [gpu] if gpu is None or isinstance(gpu, GpuChoice) else gpu
        self.gpus = tuple(None if one is None else Gpu.of(one) for one in chosen)
        if len({gpu and gpu.sms for gpu in self.gpus}) > 1:
            raise UserError("the GPUs are not partitioned alike; kernels are planned for one number of SMs")
        if self.settings.fenced and None in self.gpus:
            raise UserError("a fence needs a GPU; without one, kernels are checked unfenced")
        self.tally = Tally()
        self.on_result: Callable[[KernelSource, Mapping[str, Any]], None] | None = None
        """Called with every worker's result as it arrives, including what does not become part of the record."""
        self.on_stage: Callable[[str], None] | None = None
        """Called with what begins, in a few words: starting, planning, and the stages of a kernel on a device. Set this
        and the next before workers start."""
        self.configurations: dict[tuple[str, str], str] = {}
        """The configuration that an autotuner chose, by kernel and workload, as the kernel names it."""
        self.on_workload: Callable[[Measurement], None] | None = None
        """Called with a planned kernel's measurement on a workload before those of its other workloads are taken. What
        counts is what `measure` yields: a kernel may still fail."""
        self._queues: list[DeviceQueue] = []
        self._spawner: Spawner | None = None
        self._plan_spawner: Spawner | None = None
        self._planners: Planners | None = None
        self._environments: dict[int, Environment] = {}
        self._rng = random.Random(secrets.randbits(64))

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Start the workers, if they are not running, and wait until they are ready.

        Raises:
            InfrastructureError: a device cannot be used.
            MissingDependencyError: torch or Triton is not installed.
        """
        self._begin()
        for queue in self._queues:
            queue.wait()

    def _begin(self) -> None:
        """Start the workers, if they are not running, and wait until kernels can be planned for their devices."""
        if self._queues:
            return
        if self.on_stage is not None:
            self.on_stage("start workers")
        for package, extra in (("torch", "gpu"), ("triton", "explain")):
            require_package(package, extra, "running kernels")
        cache = BuildCache((self.settings.cache or cache_folder()).resolve())
        dry = self.gpus == (None,)
        make = self.spawner_type or shared_spawner
        self._spawner, self._plan_spawner = make(interpret=dry), make(planning=True)
        # Both, before either is waited for: they import for seconds.
        for spawner in (self._spawner, self._plan_spawner):
            spawner.start()
        # Seeds are fresh in every session: an answer prepared for known inputs is of no use.
        seeds = tuple(self._rng.getrandbits(31) for _ in range(INPUT_SETS))
        for number, gpu in enumerate(self.gpus):
            self._queues.append(DeviceQueue(number, gpu, seeds, self._spawner, cache, self.settings))
            self._queues[-1].on_stage = self.on_stage
            self._queues[-1].on_workload = None if self.on_workload is None else self._show
        try:
            for queue in self._queues:
                queue.start()
            for queue in self._queues:
                queue.open()
        except InfrastructureError:
            self.close()
            raise
        cores = os.cpu_count() or 4
        seats = self.settings.builders or max(1, min(BUILDERS, cores - 2 if dry else cores))
        self._planners = Planners(
            self._plan_spawner,
            cache,
            self.target(),
            self.device_facts(),
            seats,
            self.settings.build_timeout_s,
            niceness=0 if dry else YIELDING,
            processors=[] if dry else planning_processors(len(self.gpus)),
        )
        self._planners.on_stage = self.on_stage

    def close(self) -> None:
        """End all workers."""
        if self._planners is not None:
            self._planners.close()
        for queue in self._queues:
            queue.close()
        for spawner in (self._spawner, self._plan_spawner) if self.spawner_type is not None else ():
            if spawner is not None:
                spawner.close()
        self._queues, self._planners, self._spawner, self._plan_spawner = [], None, None, None

    def prepare(self) -> None:
        """Have a process ready for the next kernel to be planned in, where workers run."""
        if self._planners is not None:
            self._planners.prepare()

    def measure(
        self,
        kernels: Iterable[KernelSource | None],
        *,
        check_only: bool = False,
        workloads: tuple[str, ...] | None = None,
        on_lost: Callable[[KernelSource, str], None] | None = None,
        fragile: Collection[str] = (),
    ) -> Iterator[Measurement]:
        """Measure kernels; one record per kernel and workload, as they finish.

        Args:
            kernels: taken in as they are needed, a few ahead of the device; None in it means that there is nothing
                now and may be something later, so that a search can feed what it decides while others are measured.
            check_only: verify and time nothing: on the tiny workload, and on a GPU on all others too.
            workloads: names of those to measure, in place of the settings'.
            on_lost: told of every kernel that the machine failed despite retries, at once, instead of the error.
            fragile: ids of kernels that are known to end their worker. Each gets a fresh one, so that the others do not
                lose what theirs has made ready.

        Raises:
            InfrastructureError: at the end, naming the kernels that the machine failed despite retries; or at once,
                when the device cannot be used at all.
        """
        if self.settings.fenced and not check_only:
            raise UserError("a fenced harness can only check; times taken with a fence mean nothing")
        yield from self._run(self._jobs(kernels, check_only, workloads, fragile), on_lost)

    def _jobs(
        self,
        kernels: Iterable[KernelSource | None],
        check_only: bool,
        workloads: tuple[str, ...] | None,
        fragile: Collection[str],
    ) -> Iterator[Job | None]:
        for number, kernel in enumerate(kernels):
            if kernel is None:
                yield None
                continue
            if self.gpus == (None,) and not check_only:
                definition = problem(kernel.problem_id)
                refuse_without_gpu(definition, chosen_sizes(definition, workloads or self.settings.workloads))
            task = self._task(kernel.problem_id, workloads or self._chosen(kernel.problem_id), check_only=check_only)
            job = Job(number, kernel, task, self._planned(kernel.problem_id), alone=kernel.kernel_id in fragile)
            refused = refusal(adapter_for(kernel.source), kernel.problem_id)
            if refused is not None:
                # Nothing is left to plan: the kernel's form alone says that it solves another problem.
                job.build = Build("", Status.REJECTED.value, refused)
            yield job

    def _task(self, problem_id: str, workloads: tuple[str, ...] | None, *, check_only: bool = False) -> dict[str, Any]:
        """Instructions for a worker, with a seed of their own."""
        seed = self._rng.getrandbits(63)
        return dataclasses.asdict(MeasureTask(problem_id, self.settings.timing, seed, check_only, workloads))

    def _chosen(self, problem_id: str) -> tuple[str, ...] | None:
        """Names of the workloads to measure; None for all.

        Raises:
            UserError: one does not fit into the GPU's memory and none was to be left out, or none fits.
        """
        definition, limit_bytes = problem(problem_id), self.settings.max_memory_bytes
        sizes = chosen_sizes(definition, self.settings.workloads)
        if limit_bytes is not None:
            return tuple(size.name for size in fitting(definition, sizes, limit_bytes))
        refuse_too_large(
            definition, sizes, min((int(q.facts.get("memory_bytes") or 0) for q in self._queues), default=0)
        )
        return self.settings.workloads

    def _planned(self, problem_id: str) -> tuple[str, ...] | None:
        """Names of the workloads to plan: without those that are left out, whose failure would be everybody's."""
        definition, limit_bytes = problem(problem_id), self.settings.max_memory_bytes
        if limit_bytes is None:
            return None
        fit = fitting(definition, definition.sizes, limit_bytes)
        return tuple(size.name for size in fit) if len(fit) < len(definition.sizes) else None

    def _run(
        self, jobs: Iterator[Job | None], on_lost: Callable[[KernelSource, str], None] | None
    ) -> Iterator[Measurement]:
        for outcome in self._outcomes(jobs, on_lost):
            if outcome is not None:
                yield from self._records(outcome)

    def _supervisor(self) -> Supervisor:
        self._begin()
        assert self._planners is not None
        return Supervisor(self._planners, self._queues, self.settings)

    def _outcomes(
        self, jobs: Iterator[Job | None], on_lost: Callable[[KernelSource, str], None] | None
    ) -> Iterator[Outcome | None]:
        """Outcomes as they are reached; `on_lost` is told of kernels that the machine failed.

        Raises:
            InfrastructureError: at the end, where nobody is told and the machine failed some.
        """
        lost: list[str] = []
        for outcome in self._supervisor().run(jobs):
            if outcome is None or outcome.infrastructure is None:
                yield outcome
                continue
            if on_lost is not None:
                on_lost(outcome.job.kernel, outcome.infrastructure)
            else:
                lost.append(f"{outcome.job.kernel.kernel_id}: {outcome.infrastructure}")
            yield None
        if lost:
            count = f"{len(lost)} kernel{'s' if len(lost) > 1 else ''}"
            raise InfrastructureError(f"the machine failed {count}, not recorded; first: {lost[0]}")

    def _records(self, outcome: Outcome) -> Iterator[Measurement]:
        results = list(outcome.results)
        if outcome.status is not None:
            task = outcome.job.task
            names = task.get("workloads") or self._workloads(outcome.job.kernel, bool(task.get("check_only")))
            results = [failure(name, Status(outcome.status), outcome.reason or outcome.status) for name in names]
        self.tally.kernels += 1
        self.tally.busy_s += outcome.busy_s
        self.tally.build_s += outcome.job.build_s
        for place, result in enumerate(results):
            if self.on_result is not None:
                self.on_result(outcome.job.kernel, result)
            measurement = self._record(outcome.job.kernel, result, outcome, first=place == 0)
            self.tally.verify_s += measurement.verify_s or 0.0
            self.tally.time_s += measurement.time_s or 0.0
            yield measurement

    def _record(
        self, kernel: KernelSource, result: dict[str, Any], outcome: Outcome, *, first: bool = True
    ) -> Measurement:
        if outcome.job.build is not None and (name := outcome.job.build.configuration(result)):
            self.configurations[kernel.kernel_id, result["workload"]] = name
        environment = self.environment(max(outcome.device, 0))
        stamp = outcome.job.started_at or time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        make = functools.partial(
            make_measurement,
            kernel,
            outcome.job.build,
            gpu=environment.gpu,
            env_id=environment.env_id,
            started_at=stamp,
            build_s=outcome.job.build_s if first else 0.0,
        )
        try:
            return make(result)
        except DataError as error:
            # Only code that bypassed the harness can send figures that are not numbers.
            workload = self._workloads(kernel, False)[0]
            return make(failure(workload, Status.REJECTED, f"returned an impossible record: {error}"))

    def _workloads(self, kernel: KernelSource, check_only: bool) -> list[str]:
        definition = problem(kernel.problem_id)
        sizes = chosen_sizes(definition, self._chosen(kernel.problem_id))
        if check_only:
            sizes = [definition.tiny, *(sizes if self.gpus != (None,) else [])]
        return [size.name for size in sizes]

    def _show(self, job: Job, result: dict[str, Any]) -> None:
        if self.on_workload is not None:
            self.on_workload(self._record(job.kernel, result, Outcome(job, 0, (result,))))

    def compile(self, kernels: Iterable[KernelSource]) -> Iterator[Measurement]:
        """Plan kernels and run nothing; one record per kernel, for the tiny workload, ok when it compiles."""
        yield from self._run(self._compilations(kernels), None)

    def builds(self, kernels: Iterable[KernelSource]) -> Iterator[tuple[KernelSource, Build]]:
        """Build kernels and run nothing; what its machine code says of each.

        A kernel whose build takes too long or kills its process is left out.
        """
        jobs = (Job(number, kernel, {}, compile_only=True, count_work=True) for number, kernel in enumerate(kernels))
        for outcome in self._outcomes(jobs, None):
            if outcome is not None and outcome.job.build is not None:
                yield outcome.job.kernel, outcome.job.build

    def duels(self, pairs: Iterable[tuple[KernelSource, KernelSource]], threshold: float) -> Iterator[Outcome]:
        """Compare the kernels of each pair in the same rounds; `kbench.harness.commands.compare` reads the outcomes.

        Args:
            pairs: kernels of one problem each.
            threshold: the smallest relative difference that matters; rounds go on until it is decided or too costly.
        """
        pairs = list(pairs)
        kernels = {kernel.kernel_id: kernel for pair in pairs for kernel in pair}
        for kernel in kernels.values():
            refused = refusal(adapter_for(kernel.source), kernel.problem_id)
            if refused is not None:
                raise UserError(f"kernel {kernel.kernel_id}: {refused}")
        built: dict[str, Job] = {}
        for outcome in self._compile(kernels.values()):
            job = outcome.job
            if outcome.status is not None:
                unplanned = job.build is not None and job.build.unplannable
                how = "; --allow-unscreened runs it beside its judge" if unplanned else ""
                raise UserError(f"kernel {job.kernel.kernel_id}: {outcome.reason}{how}")
            built[job.kernel.kernel_id] = job
        jobs: list[Job] = []
        for number, (first, second) in enumerate(pairs):
            one, other = built[first.kernel_id], built[second.kernel_id]
            # Both run the same way: a planned kernel is not compared with one that runs beside its judge.
            process = self.gpus == (None,) or any(job.build and job.build.unplannable for job in (one, other))
            task = self._task(first.problem_id, self._chosen(first.problem_id))
            job = Job(number, first, task, build=one.build, process=process, extension=one.extension)
            job.rival, job.threshold = other, threshold
            jobs.append(job)
        yield from filter(None, self._supervisor().run(jobs))

    def second_clock(self, kernels: Iterable[KernelSource]) -> Iterator[tuple[str, SecondTimes]]:
        """Times of planned kernels by the profiler, on calls that are judged; kernel ids with them, in no order.

        Many kernels share a process, which nothing else is measured in; where one of them breaks it, halves of them do.
        Without a GPU or a profiler that sees its work there is no such clock, and nothing is said.

        Raises:
            InfrastructureError: the machine failed.
        """
        if None in self.gpus:
            return
        jobs: list[Job] = []
        for outcome in self._compile(kernels):
            if outcome.status is None:
                jobs.append(outcome.job)
            else:
                yield outcome.job.kernel.kernel_id, f"{outcome.status}: {outcome.reason}"
        # Kernels of a problem one after another: its inputs are made once.
        jobs.sort(key=lambda job: job.kernel.problem_id)
        parties = [jobs[start : start + PROFILED] for start in range(0, len(jobs), PROFILED)]
        while parties:
            again: list[list[Job]] = []
            for outcome in filter(None, self._outcomes(self._profile_jobs(parties), None)):
                party = list(outcome.job.profiled)
                if outcome.status is None and outcome.results:
                    yield from second_times([job.kernel.kernel_id for job in party], outcome.results)
                elif outcome.status is not None and len(party) > 1:
                    again += [party[: len(party) // 2], party[len(party) // 2 :]]
                elif outcome.status is not None:
                    yield outcome.job.kernel.kernel_id, f"{outcome.status}: {outcome.reason}"
            parties = again

    def _profile_jobs(self, parties: Sequence[Sequence[Job]]) -> Iterator[Job]:
        """A job for each party: kernels, already built, that the profiler times in one process."""
        for party in parties:
            for job in party:
                job.task = {"workloads": self._chosen(job.kernel.problem_id)}
            first = party[0]
            yield Job(first.number, first.kernel, first.task, build=first.build, profiled=tuple(party))

    def _compile(self, kernels: Iterable[KernelSource]) -> list[Outcome]:
        """Build each kernel and run nothing."""
        return list(filter(None, self._supervisor().run(self._compilations(kernels))))

    def _compilations(self, kernels: Iterable[KernelSource]) -> Iterator[Job]:
        """Jobs that build kernels and run nothing."""
        for number, kernel in enumerate(kernels):
            workloads = self._planned(kernel.problem_id)
            yield Job(number, kernel, {"check_only": True}, workloads, compile_only=True)

    def target(self) -> Target:
        """The architecture kernels are built for: as set, or the first device's, or sm_90 for a dry run."""
        if self.settings.target is not None:
            return self.settings.target
        major, minor = (int(part) for part in self._queues[0].facts["compute_capability"].split("."))
        return Target(major, minor) if major else Target(9, 0)

    def device_facts(self) -> DeviceFacts:
        """Facts of the device that host code is planned for: the first one's, or an H200's in a dry run."""
        facts = self._queues[0].facts.get("planning")
        return H200 if facts is None else DeviceFacts(**facts)

    def environment(self, device: int = 0) -> Environment:
        """The machine and software, with the device's ceilings as measured at the start."""
        self.open()
        if device not in self._environments:
            at = self._queues[device]
            ceilings = Ceilings(**at.ceilings) if at.ceilings else None
            self._environments[device] = make_environment(at.facts, "+".join(at.sandbox) or "none", ceilings)
        return self._environments[device]

    def ceilings(self) -> Ceilings:
        """The first device's bandwidth and rates as measured at the start."""
        self.open()
        return Ceilings(**(self._queues[0].ceilings or {}))

    def planning_sandbox(self, kernel: KernelSource) -> list[str]:
        """The restrictions of the process that plans a kernel; none where the kernel's build is cached."""
        self._compile([kernel])
        return [] if self._planners is None else list(self._planners.sandbox)

    def facts(self) -> Mapping[str, Any]:
        """The facts of the first device as its worker knows them, with those that no record keeps."""
        self.open()
        return self._queues[0].facts
