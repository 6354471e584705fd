"""Progress: what a command that measures is doing, on stderr, while its rows go to stdout."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter

import click

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
