"""Pool: processes that share the slow part of a command."""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kbench.loaders.storage.namespaces import die_with_parent

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def spread(function: Callable[[Item], Answer], items: Iterable[Item], chunk: int) -> Iterator[Answer]:
    """A function of each item, in order, on all cores; the processes leave interrupts to this one and end with it."""
    spawn = multiprocessing.get_context("spawn")
    pool = concurrent.futures.ProcessPoolExecutor(os.cpu_count(), spawn, initializer=die_with_parent)
    try:
        # Children inherit what is blocked, and all are started by the first call.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        answers = pool.map(function, items, chunksize=chunk)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield from answers
    finally:
        pool.shutdown(cancel_futures=True)


@contextlib.contextmanager
def beside(function: Callable[..., object], *arguments: Any) -> Iterator[Callable[[], None]]:
    """A function in a process of its own while the body runs, with which it ends; what is yielded waits for it.

    Nothing comes back: it makes files that the body would make otherwise, so what it raises is nobody's concern.
    """
    process = multiprocessing.get_context("spawn").Process(target=_quietly, args=(function, *arguments), daemon=True)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    process.start()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield process.join
    finally:
        process.terminate()


def _quietly(function: Callable[..., object], *arguments: Any) -> None:
    die_with_parent()
    with contextlib.suppress(Exception):
        function(*arguments)
