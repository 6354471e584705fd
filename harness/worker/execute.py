"""Execute: one kernel, in a worker, from a subject to one plain result per workload."""

from __future__ import annotations

import dataclasses
import functools
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from kbench.benchmark.problems import Size, problem
from kbench.harness.audit.audit import VERIFIED, Auditor
from kbench.harness.audit.reaudit import Reaudit
from kbench.harness.bench.context import KEPT_CASE_BYTES, ContextCache, ProblemContext, check_claims, first_failure
from kbench.harness.bench.subject import Subject
from kbench.harness.device.device import Device
from kbench.harness.device.environment import ConditionsReader
from kbench.harness.device.floor import Ceilings, floor_us, implausible
from kbench.harness.isolate.limits import classify
from kbench.harness.timing.batch import Sampler
from kbench.harness.timing.rounds import (
    DRIFT,
    PAUSE_S,
    Timing,
    TimingSettings,
    adversarial_label,
    anchor,
    null_kernel,
    ramp,
    time_candidate,
)
from kbench.harness.timing.stamps import NULL_KERNEL, UNSEEN_US
from kbench.harness.verify import Verdict, call, verify, verify_answer, verify_together
from kbench.harness.workloads import chosen_sizes
from kbench.schemas import InfrastructureError, Status

Result = TypeVar("Result")
CANDIDATE = "candidate"
ATTEMPTS = 6
"""Times that a kernel is timed at most, where the host saw more time pass than stamps show: it may have been late."""
DISTURBED, DISTURBED_US = 1.15, 1.0
"""A reference that takes longer beside a kernel than before any ran there, by both of these, is slowed by it."""
Report = Callable[[str], None]
"""Called when a stage begins, so that the parent knows where a worker died."""
OnWorkload = Callable[[dict[str, Any]], None]
"""Called with a workload's result before the next workload begins."""


class PoisonedError(Exception):
    """The process must be replaced: its device context no longer works, or the reference is slower than it knows."""


@dataclasses.dataclass(slots=True)
class Bench:
    """The device of a worker, and all that it keeps between kernels."""

    device: Device
    contexts: ContextCache
    sampler: Sampler
    reader: ConditionsReader
    ceilings: Ceilings | None = None
    undisturbed_us: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """Time of the reference, by problem and size, before any kernel had memory or work on that workload here."""


@dataclasses.dataclass(slots=True)
class MeasureTask:
    """One kernel's instructions."""

    problem_id: str
    settings: TimingSettings
    seed: int
    check_only: bool = False
    """Verify and time nothing: on the tiny workload, and on a GPU on all others too."""
    workloads: tuple[str, ...] | None = None

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> MeasureTask:
        """A task from plain values, as they travel between processes."""
        settings = TimingSettings(**fields["settings"] | {"looks": tuple(fields["settings"]["looks"])})
        names = None if fields["workloads"] is None else tuple(fields["workloads"])
        return cls(**{**fields, "settings": settings, "workloads": names})


class Runnable(Protocol):
    """A kernel at hand."""

    def subject(self, context: ProblemContext, bench: Bench) -> Subject:
        """The kernel on one problem and size.

        Raises:
            DriverError: its machine code cannot be used.
        """


def execute(
    kernel: Runnable, task: MeasureTask, bench: Bench, report: Report, on_workload: OnWorkload | None = None
) -> list[dict[str, Any]]:
    """Verify and time a kernel on every workload of its problem.

    Args:
        kernel: what to measure.
        task: its instructions.
        bench: where it runs.
        report: told where it is.
        on_workload: told of every workload's result before the next workload begins.

    Raises:
        PoisonedError: the kernel broke the device context; what is known so far is in the exception's arguments.
        InfrastructureError: the machine failed.
    """
    definition = problem(task.problem_id)
    sizes = chosen_sizes(definition, task.workloads)
    started = time.perf_counter()
    first = Verdict()
    tiny = make_context(bench, task.problem_id, definition.tiny, report)
    report("verify tiny")
    guard(lambda: verify_kernel(kernel, tiny, task, bench, report, first, 1), first, bench)
    spent = time.perf_counter() - started
    if task.check_only and not bench.device.is_gpu:
        return [plain_result(definition.tiny, first, None, None, spent, 0.0)]
    results = [plain_result(definition.tiny, first, None, None, 0.0, 0.0)] if task.check_only else []
    if not first.ok:
        return results + [plain_result(size, first, None, None, spent / len(sizes), 0.0) for size in sizes]
    for size in sizes:
        results.append(measure_on_workload(kernel, size, task, bench, report, first, spent / len(sizes)))
        if on_workload is not None:
            on_workload(results[-1])
    return results


def verify_kernel(
    kernel: Runnable,
    context: ProblemContext,
    task: MeasureTask,
    bench: Bench,
    report: Report,
    verdict: Verdict,
    count: int,
) -> Subject:
    """Verify a kernel on random inputs and on every adversarial case.

    Args:
        kernel: what to verify.
        context: the problem and size.
        task: its instructions.
        bench: where it runs.
        report: told where it is.
        verdict: where failures are recorded.
        count: random inputs to use.
    """
    subject = kernel.subject(context, bench)
    if subject.owned:
        # Only now: to make a subject, its configurations may be timed.
        if count > 1 and not task.check_only:
            context.foresee_held_out()
        back = None if count == 1 or task.check_only else context.held_back
        # Only what is kept can be shown later.
        cases = [c for c in context.adversarial() if c.drawing.case != back or c.nbytes > KEPT_CASE_BYTES]
        inputs = [*context.references[:count], *cases]
        # At least two: the call that finds what another left is on random inputs.
        together = max(2, context.judge.kept_bytes // max(1, sum(context.output_bytes)))
        try:
            for start in range(0, len(inputs), together):
                if verdict.ok:
                    verify_together(subject, context, verdict, inputs[start : start + together])
        finally:
            context.judge.settle()
        return subject
    verify(subject, context, verdict, context.references[:count])
    # The answers to adversarial inputs are computed in this process, which may take longer than any kernel.
    report("context")
    for reference in context.adversarial() if verdict.ok else ():
        outputs = call(subject, context, 0, reference, verdict)
        if outputs is None or not verify_answer(context, reference, outputs, verdict):
            break
    return subject


def make_context(bench: Bench, problem_id: str, size: Size, report: Report, *, timed: bool = False) -> ProblemContext:
    """The problem's context; what fails here is the machine's fault, not the kernel's.

    Args:
        bench: where kernels run.
        problem_id: the problem.
        size: its size.
        report: told where it is.
        timed: have the reference's steady time too, taken while the kernel has no memory and no work there.
    """
    report("context")
    try:
        try:
            return _context(bench, problem_id, size, timed=timed)
        except Exception as error:
            if type(error).__name__ != "OutOfMemoryError":
                raise
        # Inputs kept for other kernels must not cost this one its turn. Only here: as long as the exception lives, so
        # does what the first attempt allocated.
        bench.contexts.drop()
        return _context(bench, problem_id, size, timed=timed)
    except Exception as error:
        bench.contexts.drop()
        too_large = isinstance(error, MemoryError) or "alloc_cpu" in str(error)
        reason = "does not fit into memory; make its shapes smaller" if too_large else str(error)
        raise InfrastructureError(f"context of {problem_id} {size.name}: {reason}") from error


def _context(bench: Bench, problem_id: str, size: Size, *, timed: bool) -> ProblemContext:
    context = bench.contexts.get(problem_id, size)
    context.expect()
    bench.device.synchronize()
    if timed:
        steady_us = ramp(context, bench.sampler) if context.anchor_us is None else context.anchor_us
        # The first counts: a kernel that spoils a context has it made anew beside itself.
        bench.undisturbed_us.setdefault((problem_id, size.name), steady_us)
    return context


def guard(action: Callable[[], Result], verdict: Verdict, bench: Bench) -> Result | None:
    """Run a stage that calls the kernel; None where it raised, which becomes the kernel's status."""
    try:
        return action()
    except (InfrastructureError, PoisonedError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is a verdict on it
        verdict.fail(*classify(error))
        try:
            bench.device.synchronize()
        except Exception as broken:
            raise PoisonedError(verdict.status, verdict.reason) from broken
        return None


def measure_on_workload(
    kernel: Runnable, size: Size, task: MeasureTask, bench: Bench, report: Report, tiny: Verdict, spent: float
) -> dict[str, Any]:
    """Verify a kernel on one workload, and time it where it is correct.

    `tiny` is the verdict on the tiny workload, and `spent` this workload's share of the seconds that it took.
    """
    context = make_context(bench, task.problem_id, size, report, timed=not task.check_only)
    verdict = dataclasses.replace(tiny, max_abs_error=None, max_rel_error=None)
    started = time.perf_counter()
    report(f"verify {size.name}")
    subject = guard(lambda: verify_kernel(kernel, context, task, bench, report, verdict, VERIFIED), verdict, bench)
    verified = time.perf_counter() - started
    timing, timed = None, 0.0
    if verdict.ok and not task.check_only:
        guard(lambda: refill(context, bench, verdict), verdict, bench)
    if verdict.ok and not task.check_only and subject is not None:
        began = time.perf_counter()
        report(f"time {size.name}")
        timing = guard(functools.partial(time_subject, subject, context, task, bench, verdict), verdict, bench)
        timed = time.perf_counter() - began
    verify_memory(context, [] if subject is None else [subject], bench, verdict)
    ceilings = bench.ceilings if bench.device.is_gpu else None
    floor = None if ceilings is None else floor_us(context.definition, size, ceilings)
    if verdict.ok and timing is not None and timing.runtime is not None and floor is not None:
        reason = implausible(timing.runtime.value, floor)
        if reason is not None:
            verdict.fail(Status.REJECTED, reason)
    result = plain_result(size, verdict, timing, floor, spent + verified, timed)
    if timing is not None:
        result["cache_policy"] = bench.device.cache_policy
    if subject is not None:
        result |= {"trust": "plan" if subject.owned else "process", "not_restored": subject.not_restored}
        result["plan_id"] = subject.plan_id
    # Now: the next kernel runs on other workloads before this one.
    guard(context.hide_held_out, verdict, bench)
    return result


def refill(context: ProblemContext, bench: Bench, verdict: Verdict) -> None:
    """Have ordinary inputs in all buffers again: verification leaves those of the last adversarial cases in some.

    Damage is looked for first: what a kernel broke is not the machine's, and refilling would hide it.
    """
    claims = [claim for buffers in context.sets for claim in buffers.claims()]
    wrong = first_failure(check_claims(bench.device, claims))
    if wrong is not None:
        verdict.fail(Status.INCORRECT, wrong)
    context.reset()


def verify_memory(context: ProblemContext, subjects: Sequence[Subject], bench: Bench, verdict: Verdict) -> None:
    """Refuse kernels that wrote where they may not: into reference inputs or around buffers."""
    damaged = context.corrupted()
    if damaged is not None:
        bench.contexts.drop()
        verdict.fail(Status.INCORRECT, "wrote outside its outputs, into memory of the harness")
    claims = [claim for subject in subjects for claim in subject.claims()]
    wrong = first_failure(check_claims(bench.device, claims))
    if wrong is not None:
        verdict.fail(Status.INCORRECT, f"in a timed call: {wrong}")
    for subject in subjects:
        if (what := subject.damaged()) is not None:
            verdict.fail(Status.REJECTED, what)


def time_subject(
    subject: Subject, context: ProblemContext, task: MeasureTask, bench: Bench, verdict: Verdict
) -> Timing:
    """Time a verified kernel, and call it again where its times or outputs give reason to; failures go to the verdict.

    Raises:
        PoisonedError: it slows the reference down, or keeps the device busy where no time stamp shows it.
    """
    for label in (CANDIDATE, adversarial_label(CANDIDATE)):
        bench.sampler.forget(label)
    rng = random.Random(task.seed)
    auditor = Auditor(context, verdict)
    candidate = auditor.candidate(CANDIDATE, subject)
    for attempt in range(ATTEMPTS):
        auditor.begin()
        timing = time_candidate(candidate, context, bench.sampler, bench.reader, rng, task.settings, auditor.audit)
        drifted = timing.drift > DRIFT and attempt == 0
        if not verdict.ok or not bench.device.is_gpu or not (drifted or auditor.unseen_us > UNSEEN_US):
            break
        if auditor.unseen_us > UNSEEN_US:
            rest(attempt)
        if drifted:
            # The anchor is not as fast as when the machine was warmed up: warm it up again and start over.
            ramp(context, bench.sampler)
    if verdict.ok:
        others = [anchor(context)] + [null_kernel(context)] * (NULL_KERNEL in auditor.times)
        Reaudit(auditor, candidate, bench.sampler, rng, others, timing.clocks).run()
    timing.clocks["unseen_us"] = auditor.unseen_us
    # Other processes slow the reference down on a CPU, or where it is the host that is timed: that is not the kernel.
    telling = bench.device.is_gpu and not timing.late_anchors
    undisturbed_us = bench.undisturbed_us.get((context.definition.id, context.size.name)) if telling else None
    reason = held_up(timing.reference_us, undisturbed_us) or unseen_work(auditor)
    if reason is not None:
        # Perhaps it is the machine that has changed: another process will say.
        raise PoisonedError(Status.REJECTED, reason)
    return timing


def rest(attempt: int) -> None:
    """Wait before the next attempt, longer each time: a context that another process opens holds up the host."""
    if attempt + 1 < ATTEMPTS:
        time.sleep(PAUSE_S * 2**attempt)


def unseen_work(auditor: Auditor) -> str | None:
    """Whether the host has waited for something that no time stamp shows; None when it has not."""
    unseen_us = auditor.unseen_us
    if unseen_us <= UNSEEN_US:
        return None
    return f"keeps the device busy for {unseen_us:.0f} us more per batch than its time stamps account for"


def held_up(beside_us: float | None, undisturbed_us: float | None) -> str | None:
    """Whether a kernel slows the reference it is compared with; None when it does not, or nothing is known."""
    if undisturbed_us is None or beside_us is None or beside_us <= DISTURBED * undisturbed_us + DISTURBED_US:
        return None
    return f"the reference takes {beside_us:.1f} us beside it and {undisturbed_us:.1f} us without it"


def plain_result(
    size: Size, verdict: Verdict, timing: Timing | None, floor: float | None, verify_s: float, time_s: float
) -> dict[str, Any]:
    """A workload's result as plain values, with every sample and reading of conditions."""
    result: dict[str, Any] = {
        "workload": size.name,
        "status": verdict.status.value,
        "error": verdict.reason,
        "max_abs_error": verdict.max_abs_error,
        "max_rel_error": verdict.max_rel_error,
        "floor_us": floor,
        "verify_s": verify_s,
        "time_s": time_s,
    }
    if timing is None:
        return result
    runtime, speedup, seen = timing.runtime, timing.speedup, timing.conditions
    result |= {
        "samples_us": timing.samples_us,
        "anchor_us": timing.anchor_us,
        "rounds": timing.rounds,
        "sm_clock_mhz": _readings([c.sm_clock_mhz for c in seen]),
        "temperature_c": _readings([c.temperature_c for c in seen]),
        "power_w": _readings([c.power_w for c in seen]),
        "throttle_reasons": sorted({reason for c in seen for reason in c.throttle_reasons}),
        "ruler_us": timing.null_us,
        "shift_us": timing.shift_us,
        "clocks": timing.clocks,
    }
    if verdict.ok and runtime is not None and speedup is not None:
        result |= {"runtime_us": runtime.value, "runtime_low_us": runtime.low, "runtime_high_us": runtime.high}
        result |= {"speedup": speedup.value, "speedup_low": speedup.low, "speedup_high": speedup.high}
    return result


def _readings(values: Sequence[float | None]) -> list[float] | None:
    """The readings that exist; None when the device has no such sensor."""
    return [value for value in values if value is not None] or None
