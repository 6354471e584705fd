"""Progress: what is told while an evaluation runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


class Progress:
    """What is told while an evaluation runs; the default says nothing."""

    def stage(self, text: str) -> None:
        """A stage begins."""

    @contextlib.contextmanager
    def asking(self, total: int) -> Iterator[Callable[[int], None]]:
        """Queries are being answered; the callable is told how many more are done."""
        yield lambda done: None
