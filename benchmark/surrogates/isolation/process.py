"""A user's surrogate in its own process, as seen from ours: requests with a time limit, restarts, and a log."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kbench.benchmark.surrogates.isolation.wire import line, pack_queries, pack_training
from kbench.benchmark.surrogates.protocol import accept, failure
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.schemas import DataError, Forecast, KbenchError, Pair, Query, UserError, from_dict

START_SECONDS = 120.0
"""Time to import and construct a surrogate: large models take a while to load."""


class NoAnswerError(KbenchError):
    """The surrogate raised, hung, exited or spoke nonsense; the message says which."""


class ProcessSurrogate:
    """Speaks to one worker process; starts it on first use and again after it died."""

    def __init__(
        self, target: SurrogateTarget, arguments: Mapping[str, Any], timeout: float, log: Path | None = None
    ) -> None:
        """Nothing is started yet.

        Args:
            target: where the surrogate is found.
            arguments: its constructor's arguments.
            timeout: seconds one call of `forecast` may take.
            log: file that receives what the surrogate prints; by default it goes to our stderr.
        """
        self._target, self._arguments, self._timeout, self._log = target, dict(arguments), timeout, log
        self._process: subprocess.Popen[bytes] | None = None
        self._pipes: tuple[int, int] | None = None
        self._training: str | None = None
        self._buffer = b""
        self.facts: dict[str, Any] = {}

    def start(self) -> dict[str, Any]:
        """Start the process and construct the surrogate.

        Returns:
            What it says of itself: inputs, repeats, whether it fits.

        Raises:
            UserError: it cannot be constructed.
        """
        if self._process is None:
            self._spawn()
            request = {"do": "make", "target": _fields(self._target), "arguments": self._arguments}
            try:
                self.facts = self._ask(request, START_SECONDS)
            except NoAnswerError as error:
                self.stop()
                raise UserError(f"surrogate {self._target.name!r} could not be made: {error}") from None
            if self._training is not None:
                self._ask({"do": "fit", "path": self._training}, None)
        return self.facts

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Let it learn; the material is kept so that a restarted process learns again."""
        self.start()
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False, encoding="utf-8") as file:
            json.dump(pack_training(train), file)
        try:
            self._ask({"do": "fit", "path": file.name}, None)
        except NoAnswerError as error:
            Path(file.name).unlink()
            raise UserError(f"surrogate {self._target.name!r} failed in fit: {error}") from None
        self._training = file.name

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Its answers, checked one by one.

        Raises:
            NoAnswerError: there is none; the process is fresh on the next call.
        """
        self.start()
        reply = self._ask({"do": "forecast", "queries": pack_queries(queries)}, self._timeout)
        rows = reply.get("forecasts")
        if not isinstance(rows, list):
            raise NoAnswerError("answered without forecasts")
        return [_checked(row) for row in rows if isinstance(row, dict) and isinstance(row.get("query_id"), str)]

    def stop(self) -> None:
        """End the process and everything it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        if self._pipes is not None:
            for fd in self._pipes:
                os.close(fd)
            self._pipes = None
        self._buffer = b""

    def __enter__(self) -> ProcessSurrogate:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self._training is not None:
            Path(self._training).unlink(missing_ok=True)

    def _spawn(self) -> None:
        request_read, request_write = os.pipe()
        response_read, response_write = os.pipe()
        command = [
            sys.executable,
            "-m",
            "kbench.benchmark.surrogates.isolation.worker",
            str(request_read),
            str(response_write),
        ]
        with contextlib.ExitStack() as stack:
            output = sys.stderr.fileno() if self._log is None else stack.enter_context(self._log.open("ab")).fileno()
            self._process = subprocess.Popen(
                command,
                pass_fds=(request_read, response_write),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
        os.close(request_read)
        os.close(response_write)
        self._pipes = (request_write, response_read)
        os.set_blocking(request_write, False)

    def _ask(self, message: dict[str, Any], timeout: float | None) -> dict[str, Any]:
        """Send, wait, read. Whatever goes wrong but an honest exception ends the process."""
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            self._send(line(message), deadline)
            reply = json.loads(self._receive(deadline))
        except (NoAnswerError, ValueError) as error:
            self.stop()
            raise NoAnswerError(str(error) if isinstance(error, NoAnswerError) else "answered no JSON") from None
        except BaseException:
            self.stop()
            raise
        if not isinstance(reply, dict) or reply.get("ok") is not True:
            raise NoAnswerError(str(reply.get("error", "no reason given")) if isinstance(reply, dict) else "no object")
        return reply

    def _send(self, data: bytes, deadline: float | None) -> None:
        assert self._pipes is not None
        view = memoryview(data)
        while view:
            self._wait(deadline, writing=True)
            try:
                view = view[os.write(self._pipes[0], view) :]
            except BrokenPipeError:
                raise NoAnswerError(self._death()) from None
            except BlockingIOError:
                continue

    def _receive(self, deadline: float | None) -> bytes:
        assert self._pipes is not None
        parts = [self._buffer]
        while b"\n" not in parts[-1]:
            self._wait(deadline, writing=False)
            chunk = os.read(self._pipes[1], 1 << 20)
            if not chunk:
                raise NoAnswerError(self._death())
            parts.append(chunk)
        reply, _, self._buffer = b"".join(parts).partition(b"\n")
        return reply

    def _wait(self, deadline: float | None, writing: bool) -> None:
        assert self._pipes is not None
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise NoAnswerError(f"no answer within {self._timeout:g} s")
        readers, writers = ([], [self._pipes[0]]) if writing else ([self._pipes[1]], [])
        if not any(select.select(readers, writers, [], left)):
            raise NoAnswerError(f"no answer within {self._timeout:g} s")

    def _death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its pipe"
        return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed by signal {-code}"


def _fields(target: SurrogateTarget) -> dict[str, str]:
    return {
        "name": target.name,
        "kind": target.kind,
        "location": target.location,
        "attribute": target.attribute,
    }


def _checked(row: dict[str, Any]) -> Forecast:
    try:
        probabilities = row.get("probabilities")
        if isinstance(probabilities, list):
            # Whole numbers are fine as probabilities; what is no number is named by `accept`.
            numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in probabilities)
            row = row | {"probabilities": [float(v) for v in probabilities] if numeric else probabilities}
        return accept(from_dict(Forecast, row))
    except DataError as error:
        repeat = row.get("repeat", 0)
        return failure(row["query_id"], str(error), repeat if isinstance(repeat, int) else 0)
