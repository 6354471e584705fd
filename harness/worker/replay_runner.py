"""Replay runner: carries out plans on a GPU. Kernels reach it as data and machine code, never as Python."""

from __future__ import annotations

import contextlib
import functools
import itertools
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import ContextCache, ProblemContext, context_bytes
from kbench.harness.bench.judge import LocalJudge, RemoteJudge
from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.driver import DriverError
from kbench.harness.device.environment import NvmlReader, device_facts
from kbench.harness.device.gpu import Gpu, usable_bytes
from kbench.harness.isolate.limits import classify
from kbench.harness.isolate.protocol import Channel
from kbench.harness.plan.loaded_code import LoadedCode
from kbench.harness.plan.replay import Replay
from kbench.harness.timing.batch import Slot
from kbench.harness.timing.second_clock import NamedCalls, profiling, slowdown_us
from kbench.harness.verify import Verdict, verify_together
from kbench.harness.worker.execute import Bench, MeasureTask, guard, make_context
from kbench.harness.worker.runner import PREPARING, Runner
from kbench.harness.workloads import chosen_sizes
from kbench.schemas import LaunchPlan, Status, from_dict

KEPT_SHARE = 1 / 16
"""The most of the GPU's memory that outputs kept to be judged may take."""
PROFILED = 16
"""Kernels that one session of the profiler sees: starting it takes long, and it keeps all it saw until its end."""
WARMING = 50
"""Flushes before profiled calls: the device may have been idle."""
TUNING_CALLS = 6
"""Timed calls of each configuration from which the fastest is chosen."""


class PlannedKernel:
    """A kernel's plans with its machine code loaded."""

    def __init__(self, plans: Mapping[str, Sequence[Mapping[str, Any]]], code: Mapping[str, str]) -> None:
        """Load the machine code in some files, for checked plans as plain values.

        Raises:
            DriverError: the driver refuses it.
        """
        self._plans = {size: [from_dict(LaunchPlan, plan) for plan in several] for size, several in plans.items()}
        self._code = LoadedCode({sha: Path(path).read_bytes() for sha, path in code.items()})

    def subject(self, context: ProblemContext, bench: Bench) -> Replay:
        """The plan of a problem and size; the fastest where autotuning leaves a choice.

        Raises:
            DriverError: no plan can be carried out.
        """
        import torch

        try:
            return self._fastest(context, bench)
        except torch.OutOfMemoryError:
            # Inputs kept for other kernels must not cost this one its verdict.
            bench.contexts.keep_only(context)
        # Only here: as long as the exception lives, so does what the first attempt allocated.
        return self._fastest(context, bench)

    def _fastest(self, context: ProblemContext, bench: Bench) -> Replay:
        plans = self._plans[context.size.name]
        make = functools.partial(self._replay, context, bench.device)
        return make(plans[0] if len(plans) == 1 else fastest(plans, make, bench))

    def only(self, context: ProblemContext, device: Device) -> Replay:
        """The plan of a problem and size, where autotuning leaves no choice.

        Raises:
            DriverError: it cannot be carried out.
        """
        return self._replay(context, device, self._plans[context.size.name][0])

    def _replay(self, context: ProblemContext, device: Device, plan: LaunchPlan) -> Replay:
        assert isinstance(device, CudaDevice)
        return Replay(plan, self._code, context.sets, device)

    def unload(self) -> None:
        """Free the machine code."""
        self._code.unload()


def fastest(plans: Sequence[LaunchPlan], make: Callable[[LaunchPlan], Replay], bench: Bench) -> LaunchPlan:
    """The plan whose replay is fastest, judged by a few calls of each.

    Replays exist one at a time: each has all memory of the kernel at least twice.

    Raises:
        DriverError: no plan can be carried out.
    """
    times_us: dict[int, float] = {}
    failure: DriverError | None = None
    for number, plan in enumerate(plans):
        try:
            replay = make(plan)
        except DriverError as error:
            # Its traceback would keep the memory of what failed.
            failure = error.with_traceback(None)
            continue
        times_us[number] = tuning_us(replay, f"configuration {number}", bench)
        del replay
    if not times_us:
        assert failure is not None
        raise failure
    return plans[min(times_us, key=times_us.__getitem__)]


def tuning_us(replay: Replay, label: str, bench: Bench) -> float:
    """How long a replay takes, judged by a few calls."""
    slots = [
        Slot(label, 0, functools.partial(replay.call, number), prepare=functools.partial(replay.prepare, number))
        for number in (at % replay.sets for at in range(TUNING_CALLS))
    ]
    bench.sampler.run(slots[:2])
    taken = sorted(sample.time_us for sample in bench.sampler.run(slots))
    bench.sampler.forget(label)
    return taken[len(taken) // 2]


class ReplayRunner(Runner):
    """Verifies and times planned kernels, one after another in one process."""

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        """Make the device context.

        Raises:
            InfrastructureError: the device cannot be used, or nobody holds the answers.
        """
        gpu = Gpu.parse(request["gpu"])
        limit_bytes = request["memory_bytes"]
        device = CudaDevice(gpu, fenced=request["fenced"], limit_bytes=limit_bytes)
        reader = NvmlReader(gpu.index)
        # Now: kernels can be planned while this process gets ready.
        channel.send({"facts": device_facts(device)})
        device.compile()
        oracle = request.get("oracle")
        # With a fence all memory is torch's, which cannot be shared; nothing is timed there either.
        judge = LocalJudge() if oracle is None else RemoteJudge(oracle["address"], bytes.fromhex(oracle["key"]))
        judge.kept_bytes = min(judge.kept_bytes, int(KEPT_SHARE * usable_bytes(limit_bytes)))
        contexts = ContextCache(device, context_bytes(limit_bytes), tuple(request["seeds"]), judge)
        super().__init__(channel, request, device, reader, contexts)

    def operations(self) -> dict[str, Callable[[dict[str, Any]], bool]]:
        return super().operations() | {"measure": self._measure, "profile": self._profile, "foresee": self._foresee}

    def _foresee(self, message: dict[str, Any]) -> bool:
        """Make the first contexts of a problem while its first kernel is planned."""
        task = MeasureTask.read(message["task"])
        definition = problem(task.problem_id)
        # What fails here fails again when the kernel is there, which says so.
        with contextlib.suppress(Exception):
            self.bench.sampler.calibrate()
            for size in [definition.tiny, *chosen_sizes(definition, task.workloads)[:1]]:
                timed = size is not definition.tiny and not task.check_only
                context = make_context(self.bench, task.problem_id, size, lambda stage: None, timed=timed)
                for _ in context.adversarial():
                    pass
        self.channel.send({"foreseen": True})
        return True

    def _measure(self, message: dict[str, Any]) -> bool:
        import torch

        if not self.make_ready():
            return False
        kernels: list[PlannedKernel] = []
        try:
            for entry in message["kernels"]:
                kernels.append(PlannedKernel(entry["plans"], entry["code"]))
        except (DriverError, torch.OutOfMemoryError) as error:
            status, reason = classify(error)
            # What is kept for other kernels may have filled the device: it is tried once more in a fresh worker.
            what: dict[str, Any] = {"poisoned": True} if status is Status.OUT_OF_MEMORY else {"loaded": False}
            self.channel.send(what | {"status": status.value, "error": reason})
            return False
        show = (lambda result: self.channel.send({"measured": result})) if message["on_workload"] else None
        going = self.send_results(lambda: self.measure_or_compare(kernels, message, show), message)
        if going:
            for kernel in kernels:
                kernel.unload()
        return going

    def _profile(self, message: dict[str, Any]) -> bool:
        """Time kernels by the profiler. This process ends with it: launches take longer once it was used."""
        # The profiler takes seconds to start, and some machines have none: that shows before any kernel is there.
        self.report(PREPARING)
        with profiling() as trial:
            self.device.nothing()
            self.device.synchronize()
        starts = range(0, len(message["kernels"]) if trial.work else 0, PROFILED)
        numbers = [range(start, min(start + PROFILED, len(message["kernels"]))) for start in starts]
        self.send_results(lambda: [result for some in numbers for result in self._profile_some(some, message)], message)
        return False

    def _profile_some(self, numbers: range, message: dict[str, Any]) -> list[dict[str, Any]]:
        """One session: how long the device is busy with calls of some kernels; every one of the calls is judged."""
        results: list[dict[str, Any]] = []
        calls = [
            (number, message["kernels"][number], size)
            for number in numbers
            for size in chosen_sizes(
                problem(message["kernels"][number]["problem_id"]), message["kernels"][number]["workloads"]
            )
        ]
        for _, entry, size in calls:
            # Before the profiler looks: it would keep every launch that inputs and answers take.
            make_context(self.bench, entry["problem_id"], size, self.report, timed=True)
        with profiling() as profile:
            for number, some in itertools.groupby(calls, key=lambda call: call[0]):
                entry = message["kernels"][number]
                kernel = PlannedKernel(entry["plans"], entry["code"])
                for _, _, size in some:
                    context = make_context(self.bench, entry["problem_id"], size, self.report, timed=True)
                    self.report(f"profile {size.name}")
                    result = self._judge_named_calls(kernel, context, f"{number} {size.name}")
                    results.append({"kernel": number, "workload": size.name} | result)
                kernel.unload()
        times_us = profile.busy_us()
        for result in results:
            calls_us = times_us.get(f"{result['kernel']} {result['workload']}")
            slowed_us = slowdown_us(result.pop("warps"))
            result["second_clock_us"] = max(statistics.median(calls_us) - slowed_us, 0.0) if calls_us else None
        return results

    def _judge_named_calls(self, kernel: PlannedKernel, context: ProblemContext, name: str) -> dict[str, Any]:
        """Call a kernel in the order of timed calls, under a name.

        Returns:
            Why an answer is wrong, or None when all are right, and the warps of a call on each multiprocessor.
        """
        verdict = Verdict()

        def act() -> float:
            subject = kernel.subject(context, self.bench)
            called: Any = NamedCalls(subject, name)
            for _ in range(WARMING):
                self.device.flush()
            verify_together(called, context, verdict, context.references * 2)
            called.erase()
            return subject.warps

        warps = guard(act, verdict, self.bench)
        return {"error": verdict.reason, "warps": warps or 0.0}
