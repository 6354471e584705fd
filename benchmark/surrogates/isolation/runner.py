"""Ask a surrogate every query: in batches, in parallel, with time limits, keeping what is done."""

from __future__ import annotations

import dataclasses
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kbench.benchmark.surrogates.forecasts.store import ForecastStore
from kbench.benchmark.surrogates.isolation.process import NoAnswerError
from kbench.benchmark.surrogates.protocol import Surrogate, accept, failure
from kbench.schemas import Forecast, Query

DEATHS = 20
"""Queries in a row, each asked alone and unanswered, after which the rest is given up: the surrogate is broken."""

INTERRUPTED = "not asked: interrupted"
"""The failure of queries that a user's interruption left unasked."""

Todo = queue.SimpleQueue[Sequence[Query]]
Done = queue.SimpleQueue[tuple[list[Forecast], int] | BaseException | None]
"""Finished batches; None when a worker has nothing left; an error to raise."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of asking."""

    forecasts: tuple[Forecast, ...]
    """One for every query and repeat, failures included, in the order of the queries."""
    reused: int
    """How many were there already."""
    stray: int
    """Surrogate to questions nobody asked."""
    seconds: float
    """Wall time spent asking."""
    interrupted: bool

    @property
    def failures(self) -> Counter[str]:
        """Failures by reason."""
        return Counter(f.failure for f in self.forecasts if f.failure is not None)


def _matched(
    batch: Sequence[Query], given: Sequence[Forecast], repeats: int, elapsed_s: float
) -> tuple[list[Forecast], int]:
    asked = {(query.query_id, repeat) for query in batch for repeat in range(repeats)}
    found: dict[tuple[str, int], Forecast] = {}
    counts: Counter[tuple[str, int]] = Counter()
    for forecast in given:
        key = (forecast.query_id, forecast.repeat)
        counts[key] += 1
        found[key] = forecast
    result = []
    for query in batch:
        for repeat in range(repeats):
            key = (query.query_id, repeat)
            if counts[key] > 1:
                made = failure(query.query_id, f"answered {counts[key]} times; it must answer once", repeat)
            elif key in found:
                made = accept(found[key])
            else:
                made = failure(query.query_id, "no answer to this query among those returned", repeat)
            result.append(made if made.elapsed_s is not None else dataclasses.replace(made, elapsed_s=elapsed_s))
    return result, sum(count for key, count in counts.items() if key not in asked)


class _Worker(threading.Thread):
    """Takes batches from the queue and asks one surrogate process."""

    def __init__(self, surrogate: Surrogate, todo: Todo, done: Done, repeats: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._surrogate, self._todo, self._done = surrogate, todo, done
        self._repeats, self._stop_event, self._deaths = repeats, stop, 0

    def run(self) -> None:
        try:
            while not self._stop_event.is_set():
                batch = self._todo.get_nowait()
                self._done.put(self.answer(batch))
        except queue.Empty:
            self._done.put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            self._done.put(error)

    def answer(self, batch: Sequence[Query]) -> tuple[list[Forecast], int]:
        """Exactly one forecast for every query and repeat of a batch, and the number of stray answers.

        When the batch as a whole has no answer, its queries are asked one by one, so that one bad query costs only
        itself; and not all of them where one after the other has none, as each may take the whole time limit.
        """
        if self._deaths >= DEATHS:
            return self._failures(batch, f"not asked: the surrogate gave no answer {DEATHS} times in a row"), 0
        started = time.perf_counter()
        try:
            given = self._surrogate.forecast(batch)
            # An answer of failures is none, and so is an empty one, however politely it was given.
            self._deaths = self._deaths + 1 if all(f.failure is not None for f in given) else 0
        except NoAnswerError as error:
            if len(batch) > 1:
                parts = [self.answer([query]) for query in batch]
                return [f for made, _ in parts for f in made], sum(stray for _, stray in parts)
            self._deaths += 1
            given = self._failures(batch, str(error))
        elapsed_s = (time.perf_counter() - started) / max(len(batch) * self._repeats, 1)
        return _matched(batch, given, self._repeats, elapsed_s)

    def _failures(self, batch: Sequence[Query], reason: str) -> list[Forecast]:
        return [failure(query.query_id, reason, repeat) for query in batch for repeat in range(self._repeats)]


def run(
    queries: Sequence[Query],
    surrogates: Sequence[Surrogate],
    *,
    store: ForecastStore,
    repeats: int = 1,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda done: None,
) -> Run:
    """Ask everything that is not in the store yet.

    Args:
        queries: what to ask.
        surrogates: equal surrogates to share the work, each asked by its own thread.
        store: receives every forecast as it comes.
        repeats: forecasts a query, given in one call.
        batch_size: queries a call.
        progress: told how many queries were finished since the last call.
    """
    started = time.perf_counter()
    kept = set(store.done)
    left = [q for q in queries if any((q.query_id, r) not in kept for r in range(repeats))]
    progress(len(queries) - len(left))
    todo: Todo = queue.SimpleQueue()
    for start in range(0, len(left), batch_size):
        todo.put(left[start : start + batch_size])
    made: dict[tuple[str, int], Forecast] = {}
    stray, interrupted = 0, False
    try:
        for forecasts, more in _finished(todo, surrogates, repeats):
            store.add(forecasts)
            made.update({(f.query_id, f.repeat): f for f in forecasts})
            stray += more
            progress(len(forecasts) // repeats)
    except KeyboardInterrupt:
        interrupted = True
    everything = [
        made.get(key) or store.done.get(key) or failure(q.query_id, INTERRUPTED, key[1])
        for q in queries
        for key in ((q.query_id, r) for r in range(repeats))
    ]
    return Run(
        forecasts=tuple(everything),
        reused=len(queries) - len(left),
        stray=stray,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
    )


def _finished(todo: Todo, surrogates: Sequence[Surrogate], repeats: int) -> Iterator[tuple[list[Forecast], int]]:
    """Results as they come. One surrogate is asked from this thread: nothing is gained by another."""
    if len(surrogates) == 1:
        only = _Worker(surrogates[0], todo, queue.SimpleQueue(), repeats, threading.Event())
        while not todo.empty():
            yield only.answer(todo.get())
        return
    done: Done = queue.SimpleQueue()
    stop = threading.Event()
    workers = [_Worker(surrogate, todo, done, repeats, stop) for surrogate in surrogates]
    for worker in workers:
        worker.start()
    running = len(workers)
    try:
        while running:
            result = done.get()
            if result is None:
                running -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                yield result
    finally:
        stop.set()
