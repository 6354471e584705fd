"""A user's surrogate in its own process, as seen from ours: requests with a time limit, restarts, and a log."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from kbench.benchmark.surrogates.forecasts.answers import checked
from kbench.benchmark.surrogates.isolation import messages
from kbench.benchmark.surrogates.isolation.confine import Confinement
from kbench.benchmark.surrogates.protocol import SurrogateFacts
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.loaders.storage import janitor, scratch
from kbench.schemas import Forecast, KbenchError, Pair, Query, UserError

LARGEST_ANSWER_BYTES = 1 << 30
WORKER = "kbench.benchmark.surrogates.isolation.worker"

R = TypeVar("R", SurrogateFacts, messages.Fitted, messages.Answered)


class NoAnswerError(KbenchError):
    """The surrogate raised, hung, exited or sent no message; the text says which."""


class ProcessSurrogate:
    """Speaks to one worker process; starts it on first use and again after it died."""

    def __init__(
        self,
        target: SurrogateTarget,
        arguments: Mapping[str, Any],
        confinement: Confinement | None = None,
        log: Path | None = None,
    ) -> None:
        """Nothing is started yet.

        Args:
            target: where the surrogate is found.
            arguments: its constructor's arguments.
            confinement: what it may use.
            log: file that receives what the surrogate prints; by default it goes to our stderr.
        """
        self._target, self._arguments, self._log = target, arguments, log
        self._limits = confinement or Confinement()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._training: Path | None = None
        self._facts: SurrogateFacts | None = None

    def start(self) -> SurrogateFacts:
        """Start the process and construct the surrogate.

        Returns:
            What it says of itself.

        Raises:
            UserError: it cannot be constructed.
        """
        if self._process is None or self._facts is None:
            self._spawn()
            try:
                self._facts = self._ask(
                    messages.Make(self._target, self._arguments), SurrogateFacts, self._limits.start_s
                )
            except NoAnswerError as error:
                self.stop()
                raise UserError(f"surrogate {self._target.name!r} could not be made: {error}") from None
            if self._training is not None:
                self._ask(messages.Fit(str(self._training)), messages.Fitted, self._limits.fit_s)
        return self._facts

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Let it learn; the training file is kept so that a restarted process learns again."""
        self.start()
        folder = scratch.make_folder()
        file = folder / "training.json"
        file.write_bytes(messages.encode(messages.Training.of(train)))
        try:
            self._ask(messages.Fit(str(file)), messages.Fitted, self._limits.fit_s)
        except NoAnswerError as error:
            scratch.remove_folder(folder)
            raise UserError(f"surrogate {self._target.name!r} failed in fit: {error}") from None
        self._training = file

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Its answers, checked one by one.

        Raises:
            NoAnswerError: there is none; the process is fresh on the next call.
        """
        self.start()
        rows = self._ask(
            messages.Ask(messages.PackedQueries.of(queries)), messages.Answered, self._limits.forecast_s
        ).forecasts
        return [checked(row) for row in rows if isinstance(row, dict) and isinstance(row.get("query_id"), str)]

    def stop(self) -> None:
        """End the process and everything it started."""
        if self._process is not None:
            janitor.end_group(self._process.pid)
            self._process.wait()
            self._process = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> ProcessSurrogate:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
        if self._training is not None:
            scratch.remove_folder(self._training.parent)

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            output = sys.stderr.fileno() if self._log is None else stack.enter_context(self._log.open("ab")).fileno()
            self._process = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(theirs.fileno()), *self._limits.for_worker()],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self._limits.environment(os.environ)
                | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            )
            janitor.watch_group(self._process.pid)
        self._socket = ours

    def _ask(self, request: messages.Request, expected: type[R], timeout_s: float) -> R:
        """Send, wait, read. Everything but an exception of the surrogate ends the process."""
        deadline = time.monotonic() + timeout_s
        try:
            reply = messages.decode(self._exchanged(messages.encode(request), deadline, timeout_s))
        except BaseException as error:
            self.stop()
            if isinstance(error, ValueError):
                raise NoAnswerError("sent no message") from None
            raise
        if isinstance(reply, messages.Failed):
            raise NoAnswerError(str(reply.reason))
        if not isinstance(reply, expected):
            self.stop()
            raise NoAnswerError("sent no answer to the request")
        return reply

    def _exchanged(self, request: bytes, deadline: float, limit_s: float) -> bytes:
        assert self._socket is not None
        parts = [b""]
        try:
            self._socket.settimeout(_left(deadline))
            self._socket.sendall(request)
            size = 0
            while not parts[-1].endswith(b"\n"):
                self._socket.settimeout(_left(deadline))
                parts.append(self._socket.recv(1 << 20))
                size += len(parts[-1])
                if not parts[-1] or size > LARGEST_ANSWER_BYTES:
                    parts.append(b"")
                    break
        except TimeoutError:
            raise NoAnswerError(f"no answer within {limit_s:g} s") from None
        except ConnectionError:
            parts.append(b"")
        if not parts[-1]:
            raise NoAnswerError(self._death())
        return b"".join(parts)

    def _death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed by signal {-code}"


def _left(deadline: float) -> float:
    """Seconds for a socket's timeout, where zero would mean not to wait at all."""
    return max(deadline - time.monotonic(), 1e-3)
