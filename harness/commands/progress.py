"""Progress: one live line on stderr with kernels per second and the time left."""

from __future__ import annotations

import sys
import time
from collections import Counter

import click

REFRESH_SECONDS = 0.2


class Progress:
    """Counts finished kernels."""

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        """Expect `total` kernels; say nothing when quiet or not on a terminal."""
        self.total, self.done = total, 0
        self.statuses: Counter[str] = Counter()
        self.began = self._shown = time.monotonic()
        self._live = sys.stderr.isatty() and not quiet

    def add(self, status: str) -> None:
        """Count one kernel."""
        self.done += 1
        self.statuses[status] += 1
        if self._live and time.monotonic() - self._shown > REFRESH_SECONDS:
            self._shown = time.monotonic()
            click.echo(f"\r{self.line()}\033[K", err=True, nl=False)

    def line(self) -> str:
        """The line now."""
        rate = self.done / max(time.monotonic() - self.began, 1e-9)
        left = (self.total - self.done) / rate if rate else 0.0
        counts = ", ".join(f"{count} {status}" for status, count in self.statuses.most_common())
        return f"{self.done}/{self.total} kernels, {rate:.1f}/s, {left:.0f} s left ({counts})"

    def finish(self) -> None:
        """Leave the last state standing."""
        if self._live:
            click.echo(f"\r{self.line()}\033[K", err=True)
