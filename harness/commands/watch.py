"""Watch: one kernel file, measured again whenever it is saved, with what changed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from kbench.harness.commands.measure import MeasureOptions, make_harness
from kbench.harness.commands.progress import Progress
from kbench.harness.timing.duel import decide
from kbench.harness.timing.interval import Interval
from kbench.schemas import KernelSource, Measurement, Status, UserError

THRESHOLD = 0.01
"""Relative difference from the last version that matters."""
Read = Callable[[], KernelSource]


class Versions:
    """The versions of a file, as a source that has nothing to measure most of the time."""

    def __init__(self, path: Path, read: Read, tell: Callable[[str], None]) -> None:
        """Watch a file.

        Args:
            path: of the file; it may be replaced, or gone for a while.
            read: reads it as a kernel.
            tell: told why a version is no kernel.
        """
        self.path, self._read, self._tell = path, read, tell
        self.busy = False
        """A version is being measured: the next waits, and of several only the last is measured."""
        self.number = 0
        """Versions so far."""
        self._seen: tuple[int, int, int] | None = None

    def __iter__(self) -> Iterator[KernelSource | None]:
        while True:
            yield None if self.busy else self._saved()

    def _saved(self) -> KernelSource | None:
        """The file as a kernel, if it was saved since the last time."""
        try:
            found = self.path.stat()
        except OSError:
            # An editor that replaces the file takes the old one away first.
            return None
        state = (found.st_mtime_ns, found.st_ino, found.st_size)
        # An empty file is one that is being written.
        if state == self._seen or not found.st_size:
            return None
        self._seen = state
        try:
            kernel = self._read()
        except UserError as error:
            self._tell(str(error))
            return None
        self.busy, self.number = True, self.number + 1
        return kernel


@dataclasses.dataclass(slots=True)
class History:
    """What a version is compared with."""

    last: dict[str, Measurement] = dataclasses.field(default_factory=dict)
    """The latest correct measurement, by workload."""
    best_us: dict[tuple[str, str], float] = dataclasses.field(default_factory=dict)
    """The fastest correct kernel of the dataset, by GPU and workload."""

    def change(self, row: Measurement) -> str:
        """How a measurement differs from the last version's, and from the best of the dataset; keeps it as the last."""
        if row.status is not Status.OK or row.runtime_us is None:
            return ""
        before, self.last[row.workload] = self.last.get(row.workload), row
        said = "" if before is None else f"  {against(before, row)}"
        best_us = self.best_us.get((row.gpu, row.workload))
        return said if best_us is None else f"{said}  {best_us / row.runtime_us:.3f}x best of the dataset"


def against(before: Measurement, now: Measurement) -> str:
    """A version relative to the one before it: by speedups over the reference, so that drift of the GPU cancels."""
    (one, one_half), (other, other_half) = map(_log_speedup, (before, now))
    change, half = other - one, math.hypot(one_half, other_half)
    ratio = Interval(*map(math.exp, (change, change - half, change + half)))
    return f"{ratio.value:.3f}x last version, {decide(ratio, THRESHOLD).verdict}"


def _log_speedup(row: Measurement) -> tuple[float, float]:
    """The logarithm of a speedup and of its interval's half-width."""
    value, low, high = (figure or math.nan for figure in (row.speedup, row.speedup_low, row.speedup_high))
    return math.log(value), math.log(high / low) / 2.0


def watch(
    path: Path,
    read: Read,
    problem_id: str,
    options: MeasureOptions,
    show: Callable[[Measurement, str], str],
    tell: Callable[[str], None],
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
    history, versions = History(), Versions(path, read, tell)
    # Meanwhile: opening the dataset takes a second, and so does starting the workers.
    threading.Thread(target=_find_best, args=(problem_id, history), daemon=True).start()
    progress = Progress(1, quiet=options.quiet)
    shown: dict[tuple[int, str], Status] = {}

    def print_once(row: Measurement) -> None:
        key = (versions.number, row.workload)
        if shown.get(key) is not row.status:
            shown[key] = row.status
            progress.print(show(row, history.change(row)))

    def lost(kernel: KernelSource, why: str) -> None:
        versions.busy = False
        tell(f"the machine failed it: {' '.join(why.split())}")

    with make_harness(options) as harness, contextlib.suppress(KeyboardInterrupt):
        harness.on_stage, harness.on_workload = progress.stage, print_once
        for row in harness.measure(versions, on_lost=lost):
            print_once(row)
            # All rows of a version come before the next is asked for.
            versions.busy = False
            progress.restart()
    progress.finish()


def _find_best(problem_id: str, history: History) -> None:
    """Look up the fastest correct kernels of the dataset; without them a version is compared with the last alone."""
    from kbench.loaders.corpus.corpus import Corpus

    with contextlib.suppress(UserError, OSError):
        columns = ["gpu", "workload", "runtime_us"]
        rows = Corpus.open().table("measurements", columns=columns, problem=problem_id, status=Status.OK.value)
        for row in rows.to_pylist():
            key = (row["gpu"], row["workload"])
            history.best_us[key] = min(row["runtime_us"] or math.inf, history.best_us.get(key, math.inf))
