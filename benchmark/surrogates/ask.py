"""Ask a surrogate every query: in batches, in parallel, with time limits, keeping what is done."""

from __future__ import annotations

import dataclasses
import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kbench.benchmark.llm.chat import GIVE_UP_AFTER, NOT_ASKED
from kbench.benchmark.surrogates.protocol import NoAnswerError, NoReplyError, Surrogate, SurrogateFacts, accept, failure
from kbench.loaders.storage.lines import LineWriter, parse_json, read_lines
from kbench.schemas import DataError, Forecast, Query, Question, from_dict, to_dict

MOST_SILENT = 3
"""Calls in a row that hang or end the process, after which nothing more is asked: see `NoReplyError`."""
INTERRUPTED = f"{NOT_ASKED}: interrupted"
"""The failure of queries that a user's interruption left unasked."""

Batch = Sequence[Query]
Finished = tuple[list[Forecast], int]
"""Forecasts of a batch, and the number of answers that nobody asked for."""
Key = tuple[str, int]
"""Query id and repeat."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of asking."""

    forecasts: tuple[Forecast, ...]
    """One for every query and repeat, failures included, in the order of the queries."""
    reused: int
    """How many queries were answered before."""
    stray: int
    """Answers to queries nobody asked."""
    seconds: float
    """Wall time spent asking."""
    interrupted: bool

    @property
    def failures(self) -> Counter[str]:
        """Failures by reason."""
        return Counter(f.failure for f in self.forecasts if f.failure is not None)


class _Asker:
    """Asks one surrogate, batch by batch, until it has failed too often."""

    def __init__(self, surrogate: Surrogate, repeats: int) -> None:
        self._surrogate, self._repeats, self._unanswered = surrogate, repeats, 0
        self._reason, self._most = "", GIVE_UP_AFTER
        self._times_itself = getattr(surrogate, "times_itself", False)

    def answer(self, batch: Batch) -> Finished:
        """Exactly one forecast for every query and repeat of a batch.

        When the batch as a whole has no answer, its queries are asked one by one, so that a bad query costs only
        itself. Too many unanswered calls in a row end that.
        """
        if self._unanswered >= self._most:
            given_up = f"{NOT_ASKED}: the surrogate gave no answer {self._unanswered} times in a row: {self._reason}"
            # An endpoint that was given up says so itself.
            return self._failures(batch, self._reason if self._reason.startswith(NOT_ASKED) else given_up), 0
        started = time.perf_counter()
        try:
            forecasts = self._surrogate.forecast(batch)
            # Failures alone, or nothing at all, count as no answer.
            failures = [f.failure for f in forecasts if f.failure is not None]
            self._unanswered = self._unanswered + 1 if len(failures) == len(forecasts) else 0
            self._reason = failures[0] if failures else "it returned no forecasts"
            not_asked = [reason for reason in failures if reason.startswith(NOT_ASKED)]
            if not_asked:
                # The language model's endpoint was given up within this call.
                self._unanswered, self._reason = GIVE_UP_AFTER, not_asked[0]
        except NoAnswerError as error:
            if len(batch) > 1:
                parts = [self.answer([query]) for query in batch]
                return [f for made, _ in parts for f in made], sum(stray for _, stray in parts)
            self._unanswered, self._reason = self._unanswered + 1, str(error)
            self._most = MOST_SILENT if isinstance(error, NoReplyError) else GIVE_UP_AFTER
            forecasts = self._failures(batch, str(error))
        elapsed_s = (time.perf_counter() - started) / max(len(batch) * self._repeats, 1)
        return self._matched(batch, forecasts, elapsed_s)

    def _failures(self, batch: Batch, reason: str) -> list[Forecast]:
        return [failure(query.query_id, reason, repeat) for query in batch for repeat in range(self._repeats)]

    def _matched(self, batch: Batch, forecasts: Sequence[Forecast], elapsed_s: float) -> Finished:
        counts = Counter((forecast.query_id, forecast.repeat) for forecast in forecasts)
        answers = {(forecast.query_id, forecast.repeat): forecast for forecast in forecasts}
        keys = [(query.query_id, repeat) for query in batch for repeat in range(self._repeats)]
        result = []
        stray = next((key[0] for key in sorted(answers.keys() - {*keys})), None)
        missing = "forecast(queries) returned no row for this query; return one for each"
        if stray is not None:
            missing = (
                f"no answer to this query among those returned; it holds {stray[:40]!r}, which was not asked about"
            )
        for key in keys:
            if counts[key] > 1:
                made = failure(key[0], f"answered {counts[key]} times; it must answer once", key[1])
            elif key in answers:
                made = accept(answers[key])
            else:
                made = failure(key[0], missing, key[1])
            if made.elapsed_s is None and not self._times_itself:
                made = dataclasses.replace(made, elapsed_s=elapsed_s)
            result.append(made)
        return result, len(forecasts) - sum(counts[key] for key in keys)


class AskedSurrogate:
    """Equal surrogates that may fail, as one that always answers, with failures for forecasts: a part of a stack."""

    times_itself = True
    """Every answer has its own time already."""

    def __init__(self, surrogates: Sequence[Any], facts: SurrogateFacts, batch_size: int) -> None:
        self._surrogates, self._size = surrogates, batch_size
        self._askers = [_Asker(surrogate, facts.repeats) for surrogate in surrogates]
        self.inputs, self.repeats, self.batch_size = facts.inputs, facts.repeats, batch_size * len(surrogates)
        if facts.fits:
            self.fit = self._fit

    def _fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        for surrogate in self._surrogates:
            surrogate.fit(train)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One forecast for every query and repeat, failures included."""
        batches = [queries[start : start + self._size] for start in range(0, len(queries), self._size)]
        return [forecast for forecasts, _ in _results(batches, self._askers) for forecast in forecasts]


def run(
    queries: Sequence[Query],
    surrogates: Sequence[Surrogate],
    *,
    store: ForecastStore,
    repeats: int = 1,
    batch_size: int = 64,
    progress: Callable[[int], None] = lambda done: None,
) -> Run:
    """Ask everything that is not in the store yet."""
    started = time.perf_counter()
    answered = set(store.done)
    left = [q for q in queries if any((q.query_id, r) not in answered for r in range(repeats))]
    progress(len(queries) - len(left))
    batches = [left[start : start + batch_size] for start in range(0, len(left), batch_size)]
    fresh: dict[tuple[str, int], Forecast] = {}
    stray, interrupted = 0, False
    try:
        for forecasts, more in _results(batches, [_Asker(surrogate, repeats) for surrogate in surrogates]):
            store.add(forecasts)
            fresh.update({(f.query_id, f.repeat): f for f in forecasts})
            stray += more
            progress(len(forecasts) // repeats)
    except KeyboardInterrupt:
        interrupted = True
    keys = [(q.query_id, repeat) for q in queries for repeat in range(repeats)]
    return Run(
        forecasts=tuple(fresh.get(key) or store.done.get(key) or failure(key[0], INTERRUPTED, key[1]) for key in keys),
        reused=len(queries) - len(left),
        stray=stray,
        seconds=time.perf_counter() - started,
        interrupted=interrupted,
    )


def _results(batches: Sequence[Batch], askers: Sequence[_Asker]) -> Iterator[Finished]:
    """Results as they come. A single surrogate is asked from this thread: nothing is gained by another."""
    if len(askers) == 1:
        yield from map(askers[0].answer, batches)
        return
    todo: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    done: queue.SimpleQueue[Finished | BaseException | None] = queue.SimpleQueue()
    stop = threading.Event()
    for batch in batches:
        todo.put(batch)

    def work(asker: _Asker) -> None:
        try:
            while not stop.is_set():
                done.put(asker.answer(todo.get_nowait()))
        except queue.Empty:
            done.put(None)
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            done.put(error)

    for asker in askers:
        threading.Thread(target=work, args=(asker,), daemon=True).start()
    running = len(askers)
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


class ForecastStore:
    """Appends forecasts as they come; on opening, gives back every success. Failures are tried again."""

    def __init__(self, path: Path | None) -> None:
        """Open the file, made when absent; None keeps nothing.

        Raises:
            UserError: another evaluation is writing the file, or it cannot be opened.
            DataError: names the line that is damaged.
        """
        self.done: dict[Key, Forecast] = {}
        self._lines: LineWriter | None = None
        if path is not None:
            self._lines = LineWriter(path, _forecast)
            forecasts = (forecast for forecast, _ in read_lines(path, _forecast))
            self.done = {(f.query_id, f.repeat): f for f in forecasts if f.failure is None}

    def add(self, forecasts: Iterable[Forecast]) -> None:
        """Keep forecasts; they are on disk when this returns.

        Raises:
            InfrastructureError: the disk does not take them.
        """
        new = list(forecasts)
        self.done.update({(f.query_id, f.repeat): f for f in new if f.failure is None})
        if self._lines is not None:
            self._lines.append(json.dumps(to_dict(forecast)) for forecast in new)

    def __enter__(self) -> ForecastStore:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._lines is not None:
            self._lines.close()


def _forecast(text: str, where: str) -> Forecast:
    try:
        return from_dict(Forecast, parse_json(text, where))
    except DataError as error:
        raise DataError(f"{where} is not a forecast ({error}); remove the file to start over") from None
