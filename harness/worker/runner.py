"""Runner: the half of a worker that holds a device, whatever kind of kernel it runs.

It measures a kernel, or verifies two and times them against each other, and before that what bounds all of them.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems import Size, problem
from kbench.harness.audit.audit import VERIFIED, Auditor
from kbench.harness.audit.reaudit import Reaudit
from kbench.harness.bench.context import ContextCache
from kbench.harness.bench.subject import Subject
from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.driver import Launch, LaunchShape, Parameters, Queue
from kbench.harness.device.environment import ConditionsReader
from kbench.harness.device.floor import Ceilings
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word, cuda_source
from kbench.harness.isolate.protocol import Channel
from kbench.harness.timing.batch import Sampler, Slot
from kbench.harness.timing.duel import Duel, fight
from kbench.harness.timing.rounds import adversarial_label
from kbench.harness.timing.stamps import UNSEEN_US
from kbench.harness.verify import Verdict
from kbench.harness.worker.execute import (
    ATTEMPTS,
    Bench,
    MeasureTask,
    OnWorkload,
    PoisonedError,
    Report,
    Runnable,
    execute,
    guard,
    make_context,
    refill,
    rest,
    unseen_work,
    verify_kernel,
    verify_memory,
)
from kbench.harness.workloads import chosen_sizes
from kbench.schemas import InfrastructureError, Status

if TYPE_CHECKING:
    from torch import Tensor

PREPARING = "prepare"
"""The stage before any kernel has arrived: a failure in it is the machine's fault."""


class Runner:
    """Answers one parent's requests on one device."""

    def __init__(
        self,
        channel: Channel,
        request: dict[str, Any],
        device: Device,
        reader: ConditionsReader,
        contexts: ContextCache,
    ) -> None:
        """Set torch up for references."""
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.set_grad_enabled(False)
        self.channel, self.device = channel, device
        self.bench = Bench(device, contexts, Sampler(device), reader)
        if request.get("ceilings"):
            self.bench.ceilings = Ceilings(**request["ceilings"])

    def operations(self) -> dict[str, Callable[[dict[str, Any]], bool]]:
        """Requests that a parent may make, by name; False from one means that this process must end."""
        return {"ceilings": self._ceilings}

    def answer(self, message: dict[str, Any]) -> bool:
        """Answer one request; False when this process must end."""
        return self.operations()[message["op"]](message)

    def report(self, stage: str) -> None:
        """Tell the parent which stage begins."""
        self.channel.send({"stage": stage})

    def _ceilings(self, message: dict[str, Any]) -> bool:
        self.bench.ceilings = measure_ceilings(self.device, self.bench.sampler)
        self.device.release()
        self.channel.send({"ceilings": dataclasses.asdict(self.bench.ceilings)})
        return True

    def make_ready(self, *also: Callable[[], object]) -> bool:
        """Time the null kernel, and whatever else a kind of worker needs before a kernel is loaded.

        What fails here is the machine's fault: no kernel is at hand yet. False when this process must end.
        """
        self.report(PREPARING)
        try:
            for step in (self.bench.sampler.calibrate, *also):
                step()
        except Exception as error:  # noqa: BLE001 - whatever fails says that the device cannot be used
            self.channel.send({"broken": f"the device cannot be made ready: {error}"})
            return False
        self.report("load")
        return True

    def measure_or_compare(
        self, kernels: Sequence[Runnable], message: dict[str, Any], on_workload: OnWorkload | None = None
    ) -> list[dict[str, Any]]:
        """Measure a kernel, or compare two.

        Args:
            kernels: one or two, loaded.
            message: the parent's request.
            on_workload: told of every workload's result before the next workload begins.

        Raises:
            PoisonedError: one of them broke the device context.
            InfrastructureError: the machine failed.
        """
        task = MeasureTask.read(message["task"])
        if len(kernels) == 1:
            return execute(kernels[0], task, self.bench, self.report, on_workload)
        sizes, threshold = chosen_sizes(problem(task.problem_id), task.workloads), float(message["threshold"])
        return [compare_on_workload(kernels, size, task, self.bench, self.report, threshold) for size in sizes]

    def send_results(self, action: Callable[[], list[dict[str, Any]]], message: dict[str, Any]) -> bool:
        """Send the results of a kernel, or how it broke the device; False when this process must end."""
        if message.get("ceilings") and self.bench.ceilings is None:
            self.bench.ceilings = Ceilings(**message["ceilings"])
        started = time.perf_counter()
        try:
            results = action()
            if isinstance(self.device, CudaDevice):
                self.device.check_partition()
        except PoisonedError as error:
            status, reason = error.args
            self.channel.send({"poisoned": True, "status": status.value, "error": reason})
            return False
        except InfrastructureError as error:
            self.channel.send({"broken": str(error)})
            return False
        self.channel.send({"results": results, "busy_s": time.perf_counter() - started})
        return True


COPY_BYTES = 1 << 30
MATMUL_SIDE = 8192
REPEATS = 8
READ_SOURCE = cuda_source("read")
"""Keeps 128 bytes per thread in flight: on a few multiprocessors torch's own kernels leave bandwidth unused."""


def measure_ceilings(device: Device, sampler: Sampler) -> Ceilings:
    """Bandwidth over a gibibyte, a large bf16 product on random data, and the smallest step between timestamps."""
    import torch

    place = device.torch_name
    small = not device.is_gpu
    source = torch.empty((1 << 22 if small else COPY_BYTES) // 4, dtype=torch.float32, device=place).normal_()
    target = torch.empty_like(source)
    side = 128 if small else MATMUL_SIDE
    left = torch.randn(side, side, device=place).to(torch.bfloat16)
    right = torch.randn(side, side, device=place).to(torch.bfloat16)
    work: dict[str, Callable[[], Any]] = {
        "copy": lambda: target.copy_(source),
        "read": lambda: source.sum(),
        "matmul": lambda: left @ right,
    }
    times: dict[str, float] = {}
    if isinstance(device, CudaDevice):
        work["wide read"] = wide_read(device, source, target)
    for name, act in work.items():
        sampler.run([Slot(name, 0, act)] * 3)
        # The best, not the median: a ceiling must not be beaten by a lucky kernel.
        times[name] = min(s.time_us for s in sampler.run([Slot(name, 0, act)] * REPEATS))
    size = source.numel() * source.element_size()
    work.clear()
    return Ceilings(
        copy_bandwidth_gbs=2 * size / times["copy"] / 1e3,
        read_bandwidth_gbs=size / min(times["read"], times.get("wide read", times["read"])) / 1e3,
        matmul_peak_tflops=2 * side**3 / times["matmul"] / 1e6,
        timer_step_ns=timer_step_ns(device),
        l2_bytes=device.l2_bytes if isinstance(device, CudaDevice) else 0,
    )


def wide_read(device: CudaDevice, source: Tensor, target: Tensor) -> Queue:
    """Queues reading a tensor with many loads in flight."""
    function = OwnKernels(READ_SOURCE, device.properties).function("read")
    words = (source.data_ptr(), target.data_ptr(), source.numel() // 4)
    parameters = Parameters(function, [as_word(word) for word in words])
    return Launch(function, LaunchShape((4 * device.sm_count, 1, 1), (512, 1, 1)), parameters, device.stream).queue


def timer_step_ns(device: Device) -> float:
    """The smallest non-zero difference between the times of back-to-back marks."""
    marks = [device.mark() for _ in range(200)]
    device.synchronize()
    gaps = sorted(device.elapsed_us(one, two) * 1e3 for one, two in itertools.pairwise(marks))
    steps = [two - one for one, two in itertools.pairwise(gaps) if two - one > 0.5]
    return min(steps) if steps else statistics.median(gaps) or 1.0


NAMES = ("first", "second")


def compare_on_workload(
    pair: Sequence[Runnable], size: Size, task: MeasureTask, bench: Bench, report: Report, threshold: float
) -> dict[str, Any]:
    """Verify two kernels on one workload, and time them against each other where both are correct."""
    context = make_context(bench, task.problem_id, size, report)
    verdict = Verdict()
    subjects: list[Subject] = []
    for name, kernel in zip(NAMES, pair, strict=True):
        report(f"verify {name}")
        for rival in subjects:
            rival.erase()
        verifying = functools.partial(verify_kernel, kernel, context, task, bench, report, verdict, VERIFIED)
        subject = guard(verifying, verdict, bench)
        if subject is not None:
            subjects.append(subject)
        if not verdict.ok:
            return {"workload": size.name, "status": verdict.status.value, "error": f"{name}: {verdict.reason}"}
    guard(lambda: refill(context, bench, verdict), verdict, bench)
    if not verdict.ok:
        return {"workload": size.name, "status": verdict.status.value, "error": verdict.reason}
    report("duel")
    auditor = Auditor(context, verdict, several=True)
    first, second = (auditor.candidate(label, subject) for label, subject in zip(NAMES, subjects, strict=True))
    for label in (*NAMES, *map(adversarial_label, NAMES)):
        bench.sampler.forget(label)
    rng = random.Random(task.seed)

    def contest() -> Duel:
        for attempt in range(ATTEMPTS):
            auditor.begin()
            duel = fight(first, second, context, bench.sampler, rng, threshold, auditor.audit)
            if not verdict.ok or auditor.unseen_us <= UNSEEN_US:
                break
            rest(attempt)
        for candidate, rival in ((first, second), (second, first)):
            Reaudit(auditor, candidate, bench.sampler, rng, (rival,)).run()
        reason = unseen_work(auditor)
        if reason is not None:
            # Perhaps it is the machine that is late: another process will say.
            raise PoisonedError(Status.REJECTED, reason)
        return duel

    duel = guard(contest, verdict, bench)
    verify_memory(context, subjects, bench, verdict)
    result: dict[str, Any] = {"workload": size.name, "status": verdict.status.value, "error": verdict.reason}
    if duel is not None and duel.ratio is not None:
        result |= {
            "ratio": [duel.ratio.value, duel.ratio.low, duel.ratio.high],
            "rounds": duel.rounds,
            "first_us": duel.first_us,
            "second_us": duel.second_us,
        }
    return result
