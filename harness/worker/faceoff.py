"""Face-off: two kernels in one worker, verified and then timed against each other."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Sequence
from typing import Any

from kbench.benchmark.problems import Size, problem
from kbench.harness.audit.audit import VERIFIED, Auditor
from kbench.harness.audit.reaudit import Reaudit
from kbench.harness.bench.subject import Subject
from kbench.harness.timing.duel import Duel, fight
from kbench.harness.timing.rounds import PAUSE_S, adversarial_label
from kbench.harness.timing.stamps import UNSEEN_US
from kbench.harness.verify import Verdict
from kbench.harness.worker.execute import (
    ATTEMPTS,
    Bench,
    MeasureTask,
    PoisonedError,
    Report,
    Runnable,
    guard,
    make_context,
    refill,
    unseen_work,
    verify_kernel,
    verify_memory,
)
from kbench.harness.workloads import chosen_sizes
from kbench.schemas import Status

NAMES = ("first", "second")


def face_off(
    pair: Sequence[Runnable], task: MeasureTask, bench: Bench, report: Report, threshold: float
) -> list[dict[str, Any]]:
    """Compare two kernels on every workload.

    Raises:
        PoisonedError: one of them broke the device context.
        InfrastructureError: the machine failed.
    """
    sizes = chosen_sizes(problem(task.problem_id), task.workloads)
    return [_workload(pair, size, task, bench, report, threshold) for size in sizes]


def _workload(
    pair: Sequence[Runnable], size: Size, task: MeasureTask, bench: Bench, report: Report, threshold: float
) -> dict[str, Any]:
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
        for _ in range(ATTEMPTS):
            auditor.begin()
            duel = fight(first, second, context, bench.sampler, rng, threshold, auditor.audit)
            if not verdict.ok or auditor.unseen_us <= UNSEEN_US:
                break
            time.sleep(PAUSE_S)
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
