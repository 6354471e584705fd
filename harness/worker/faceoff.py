"""Face-off: two kernels in one worker, verified and then timed against each other."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

from kbench.benchmark.problems import Size, problem
from kbench.harness.audit.audit import VERIFIED, Auditor
from kbench.harness.audit.second_look import SecondLook
from kbench.harness.bench.subject import Subject
from kbench.harness.timing.duel import Duel, fight
from kbench.harness.timing.rounds import adversarial_label
from kbench.harness.verify import Verdict
from kbench.harness.worker.execute import (
    Bench,
    MeasureTask,
    Report,
    Runnable,
    check,
    chosen_sizes,
    guard,
    look_for_damage,
    make_context,
    refill,
)

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
    context = make_context(bench, task.problem_id, size, report, late=task.late)
    verdict = Verdict()
    subjects: list[Subject] = []
    for name, kernel in zip(NAMES, pair, strict=True):
        report(f"verify {name}")
        for rival in subjects:
            rival.erase()
        action = functools.partial(check, kernel, context, task, bench, report, verdict, VERIFIED)
        guard(lambda act=action: subjects.append(act()), verdict, bench)  # type: ignore[misc]
        if not verdict.ok:
            return {"workload": size.name, "status": verdict.status.value, "error": f"{name}: {verdict.reason}"}
    guard(lambda: refill(context, bench, verdict), verdict, bench)
    if not verdict.ok:
        return {"workload": size.name, "status": verdict.status.value, "error": verdict.reason}
    report("duel")
    auditor = Auditor(context, verdict, late=task.late, tampered=bench.tampered, several=True)
    first, second = (auditor.candidate(label, subject) for label, subject in zip(NAMES, subjects, strict=True))
    for label in (*NAMES, *map(adversarial_label, NAMES)):
        bench.sampler.forget(label)
    duels: list[Duel] = []
    rng = random.Random(task.seed)

    def contest() -> None:
        duels.append(fight(first, second, context, bench.sampler, rng, threshold, auditor.judge))
        for candidate in (first, second):
            SecondLook(auditor, candidate, bench.sampler, rng).take()

    guard(contest, verdict, bench)
    look_for_damage(context, subjects, bench, verdict)
    result: dict[str, Any] = {"workload": size.name, "status": verdict.status.value, "error": verdict.reason}
    if duels and duels[0].ratio is not None:
        duel, ratio = duels[0], duels[0].ratio
        result |= {
            "ratio": [ratio.value, ratio.low, ratio.high],
            "rounds": duel.rounds,
            "first_us": duel.first_us,
            "second_us": duel.second_us,
        }
    return result
