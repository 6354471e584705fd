"""Watch: one kernel file, measured again whenever it is saved, with what changed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from kbench.harness.commands.compare import verdicts
from kbench.harness.commands.measure import MeasureOptions, make_harness
from kbench.harness.commands.show import Progress
from kbench.harness.harness import Harness
from kbench.schemas import KbenchError, KernelSource, Measurement, Status, UserError

THRESHOLD = 0.01
"""Relative difference from the last version that matters."""
LOOK_S = 0.05
"""Between two looks whether the file was saved."""
Read = Callable[[], KernelSource]
Tell = Callable[[str], None]


def watch(
    path: Path,
    read: Read,
    problem_id: str,
    options: MeasureOptions,
    show: Callable[[Measurement, str], str],
    tell: Tell,
) -> None:
    """Measure a file now and whenever it is saved, until interrupted.

    Args:
        path: the file.
        read: reads it as a kernel.
        problem_id: what it solves.
        options: how to measure.
        show: makes a line of a measurement and of what changed.
        tell: told what is no measurement: why a version is no kernel, or how the machine failed it.
    """
    history, last = History(), None
    # Meanwhile: opening the dataset takes a second, and so does starting the workers.
    threading.Thread(target=_find_best, args=(problem_id, history), daemon=True).start()
    progress = Progress(1, quiet=options.quiet)
    with make_harness(options) as harness, contextlib.suppress(KeyboardInterrupt):
        harness.on_stage = progress.stage
        for kernel in versions(path, read, tell, harness.prepare):
            progress.restart()
            if _measure(kernel, harness, progress, lambda row: show(row, history.change(row)), tell):
                if last is not None and last.kernel_id != kernel.kernel_id:
                    _compare(last, kernel, harness, progress, tell)
                last = kernel
            progress.finish()


def versions(path: Path, read: Read, tell: Tell, idle: Callable[[], None]) -> Iterator[KernelSource]:
    """The file as a kernel now, and whenever it has been saved; of saves while one is measured, the last.

    Args:
        path: of the file; it may be replaced, or gone for a while.
        read: reads it as a kernel.
        tell: told why a version is no kernel.
        idle: called while nothing is saved.
    """
    seen: tuple[int, int, int] | None = None
    while True:
        state = None
        # An editor that replaces the file takes the old one away first.
        with contextlib.suppress(OSError):
            status = path.stat()
            state = (status.st_mtime_ns, status.st_ino, status.st_size)
        # An empty file is one that is being written.
        if state is None or state == seen or not state[2]:
            idle()
            time.sleep(LOOK_S)
            continue
        seen = state
        try:
            kernel = read()
        except UserError as error:
            tell(str(error))
            continue
        yield kernel


def _measure(
    kernel: KernelSource, harness: Harness, progress: Progress, line: Callable[[Measurement], str], tell: Tell
) -> bool:
    """Measure a version and print its rows, each as soon as it is there; whether all are ok."""
    shown: dict[str, Status] = {}

    def print_once(row: Measurement) -> None:
        if shown.get(row.workload) is not row.status:
            shown[row.workload] = row.status
            progress.print(line(row))

    harness.on_workload = print_once
    for row in harness.measure(
        [kernel], on_lost=lambda _, why: tell(f"the machine failed it: {' '.join(why.split())}")
    ):
        print_once(row)
    return bool(shown) and set(shown.values()) == {Status.OK}


def _compare(last: KernelSource, kernel: KernelSource, harness: Harness, progress: Progress, tell: Tell) -> None:
    """Time a version and the last correct one in the same rounds, where smaller differences show than between two."""
    try:
        for outcome in harness.duels([(last, kernel)], THRESHOLD):
            for one in verdicts(outcome, THRESHOLD):
                progress.print(f"  {one.workload}  {one.verdict} against the last version: {one.reason}")
    except KbenchError as error:
        tell(str(error))


@dataclasses.dataclass(slots=True)
class History:
    """Earlier measurements that a version is compared with."""

    last: dict[str, Measurement] = dataclasses.field(default_factory=dict)
    """The latest correct measurement, by workload."""
    best_us: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """The fastest correct kernel of the dataset, by GPU and workload."""

    def change(self, row: Measurement) -> str:
        """How a measurement differs from the last version's, and from the best of the dataset; keeps it as the last.

        From the last by speedups over the reference, so that drift of the GPU cancels.
        """
        if row.status is not Status.OK or not row.runtime_us or not row.speedup:
            return ""
        before, self.last[row.workload] = self.last.get(row.workload), row
        text = f"  {row.speedup / before.speedup:.3f}x last version" if before and before.speedup else ""
        best_us = self.best_us.get((row.gpu, row.workload))
        return text if best_us is None else f"{text}  {best_us / row.runtime_us:.3f}x best of the dataset"


def _find_best(problem_id: str, history: History) -> None:
    """Look up the fastest correct kernels of the dataset; without them a version is compared with the last alone."""
    from kbench.loaders.corpus.corpus import Corpus

    with contextlib.suppress(UserError, OSError):
        columns = ["gpu", "workload", "runtime_us"]
        rows = Corpus.open().table("measurements", columns=columns, problem=problem_id, status=Status.OK.value)
        for row in rows.to_pylist():
            key = (row["gpu"], row["workload"])
            history.best_us[key] = min(row["runtime_us"] or math.inf, history.best_us.get(key, math.inf))
