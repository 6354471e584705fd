"""What is told while an evaluation runs."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

import click

LEAST_SHOWN_S = 1.0
"""Stages that take less go by without a word on how long they took."""


class Progress:
    """Is told what goes on while an evaluation runs, and says nothing."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    @contextlib.contextmanager
    def asking(self, total: int) -> Iterator[Callable[[int], None]]:
        """Queries are being answered; the callable is told how many more are done."""
        yield lambda done: None


class TerminalProgress(Progress):
    """Stages and a bar on stderr, so that stdout stays clean for results."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._begun: float | None = None

    def stage(self, text: str) -> None:
        """Say what begins, after the seconds that the stage before it took."""
        self._end()
        self._begun = time.perf_counter()
        if not self._quiet:
            click.echo(f"{text} …", err=True)

    def _end(self) -> None:
        seconds = 0.0 if self._begun is None else time.perf_counter() - self._begun
        self._begun = None
        if seconds >= LEAST_SHOWN_S and not self._quiet:
            click.echo(f"  {seconds:.1f} s", err=True)

    @contextlib.contextmanager
    def asking(self, total: int) -> Iterator[Callable[[int], None]]:
        """A bar over queries."""
        self._end()
        with click.progressbar(
            length=total, label="forecasting", file=sys.stderr, hidden=self._quiet, show_pos=True
        ) as bar:
            yield lambda done: bar.update(done)
