"""Show: what the commands print of measurements: progress, rows, hints and agreement."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from kbench.harness.kernel.sources import advice
from kbench.schemas import KernelSource, Measurement, Status, Trust, to_dict

Rows = Sequence[tuple[str, Measurement]]
"""Measurements, each with the name of its kernel."""


def describe(name: str, row: Measurement, problem_id: str | None = None, target: str | None = None) -> str:
    """One measurement in one line, with the problem it is of where that is not the one asked for.

    Args:
        name: the kernel's.
        row: the measurement.
        problem_id: that was asked for.
        target: what a kernel that was not run was compiled for.
    """
    if row.problem_id != problem_id:
        name = f"{name} {'of' if problem_id is None else 'as'} {row.problem_id}"
    # A dry run on the CPU has no other kind of trust to tell it from.
    unscreened = row.trust is Trust.PROCESS and not row.gpu.startswith("cpu")
    head = f"{name}  {row.workload}  {row.status}{'  (not screened, trust: process)' if unscreened else ''}"
    if row.runtime_us is None or row.speedup is None:
        compiles = f"compiles{f' for {target}' if target else ''}; not run"
        return f"{head}  {row.error or (compiles if row.max_abs_error is None else 'verified')}"
    half = (row.runtime_high_us or 0.0) - (row.runtime_low_us or 0.0)
    return (
        f"{head}  {row.runtime_us:.3f} us ±{50 * half / row.runtime_us:.2f} %"
        f"  {row.speedup:.3f}x reference ({row.speedup_low:.3f}-{row.speedup_high:.3f})"
    )


def finish(rows: Rows, as_json: bool, problem_id: str, shown: Sequence[str] = (), target: str | None = None) -> None:
    """Show what was measured and is not shown yet; exit 1 when a kernel failed."""
    for name, row in rows:
        line = json.dumps(to_dict(row) | {"file": name}) if as_json else describe(name, row, problem_id, target)
        if line not in shown:
            click.echo(line)
    if any(row.status is not Status.OK for _, row in rows):
        sys.exit(1)


def show_hints(kernels: Sequence[tuple[str, KernelSource]], rows: Rows) -> None:
    """Say for every rejected kernel what its text alone shows to be the obstacle."""
    rejected = {row.kernel_id for _, row in rows if row.status is Status.REJECTED}
    for name, kernel in kernels:
        hint = advice(kernel.source) if kernel.kernel_id in rejected else None
        if hint is not None:
            click.echo(f"hint: {name} {hint}", err=True)


def show_verified(rows: Rows, as_json: bool) -> None:
    """Show which kernels of a corpus failed their check and how many passed; exit 1 when one failed."""
    bad = [(name, row) for name, row in rows if row.status is not Status.OK]
    for name, row in rows if as_json else bad:
        click.echo(json.dumps(to_dict(row)) if as_json else describe(name, row))
    if not as_json:
        checked, failed = len({name for name, _ in rows}), len({name for name, _ in bad})
        click.echo(f"{checked} kernels checked, {checked - failed} ok")
    if bad:
        sys.exit(1)


def show_agreement(report: dict[str, Any], as_json: bool) -> None:
    """Show how a re-measurement agrees with the stored figures."""
    if as_json:
        click.echo(json.dumps(report))
        return
    click.echo(f"{report['kernels']} of {report['chosen']} kernels measured on {', '.join(report['gpus'])}")
    click.echo(f"{report['compared']} with stored figures of that GPU to compare")
    for name, value in report["agreement"].items():
        click.echo(f"  {name:<28}{value}")
    for problem_id, count in report.get("measured as", {}).items():
        click.echo(f"{count} measured as {problem_id}, which is no problem of the benchmark")
    for reason, count in report.get("left out", {}).items():
        click.echo(f"{count} left out: {reason}")


REFRESH_SECONDS = 0.2
"""Between two states of the line that counts kernels."""
CLEAR = "\r\033[K"


class Progress:
    """A line on a terminal that says what is being done; elsewhere one line per stage, where there is one kernel."""

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        """Expect `total` kernels; say nothing when quiet."""
        self.total, self.done = total, 0
        self.statuses: Counter[str] = Counter()
        self.began = time.monotonic()
        self._shown, self._stage = -REFRESH_SECONDS, ""
        self._quiet, self._live = quiet, sys.stderr.isatty() and not quiet

    def restart(self) -> None:
        """Count seconds from the next stage on."""
        self._stage, self.began = "", math.nan

    def stage(self, name: str) -> None:
        """Say what begins; of many kernels' stages, those that a person can follow."""
        before, self._stage = self._stage, name
        if math.isnan(self.began):
            self.began = time.monotonic()
        if self._live:
            self._show(always=self.total == 1)
        elif self.total == 1 and name != before and not self._quiet:
            click.echo(f"{self._seconds():5.1f} s  {name}", err=True)

    def add(self, status: str) -> None:
        """Count one kernel."""
        self.done += 1
        self.statuses[status] += 1
        if self._live:
            self._show()

    def print(self, line: str) -> None:
        """Print a row above the line that shows the progress."""
        if self._live:
            click.echo(CLEAR, err=True, nl=False)
        click.echo(line)
        if self._live:
            self._show(always=True)

    def line(self) -> str:
        """How many kernels are done, and how."""
        rate = self.done / max(self._seconds(), 1e-9)
        left = (self.total - self.done) / rate if rate else 0.0
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.most_common())
        return f"{self.done}/{self.total} kernels, {rate:.1f}/s, {left:.0f} s left ({counts})"

    def finish(self) -> None:
        """Leave the last state standing where it counts kernels, nothing where there is one."""
        if self._live:
            click.echo(CLEAR if self.total == 1 else f"{CLEAR}{self.line()}\n", err=True, nl=False)

    def _show(self, *, always: bool = False) -> None:
        if always or time.monotonic() - self._shown > REFRESH_SECONDS:
            self._shown = time.monotonic()
            counted = f"{self.line()}  " if self.done or self.total > 1 else ""
            seconds = f"{self._seconds():.1f} s  " if self._stage else ""
            click.echo(f"{CLEAR}{seconds}{counted}{self._stage}", err=True, nl=False)

    def _seconds(self) -> float:
        return time.monotonic() - self.began
