"""Pool: processes that share the slow part of a command."""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

PR_SET_PDEATHSIG = 1
Item = TypeVar("Item")
Answer = TypeVar("Answer")


def spread(function: Callable[[Item], Answer], items: Iterable[Item], chunk: int) -> Iterator[Answer]:
    """A function of each item, in order, on all cores; the processes leave interrupts to this one and end with it."""
    spawn = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count(), spawn, initializer=_die_with_parent)
    try:
        # Children inherit what is blocked, and all are started by the first call.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        answers = pool.map(function, items, chunksize=chunk)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield from answers
    finally:
        pool.shutdown(cancel_futures=True)


def _die_with_parent() -> None:
    """In a child: end with the thread that started it, which is its pool's maker."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
