"""A user's surrogate in its own process, as seen from ours: requests with a time limit, restarts, and a log.

Requests are pickles, which carry queries as they are. Replies are lines of JSON, because unpickling what a user's
process sends would run its code in ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kbench.benchmark.surrogates.protocol import SurrogateFacts, checked
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.loaders.storage import janitor, scratch
from kbench.schemas import Forecast, KbenchError, Pair, Query, UserError

LARGEST_ANSWER_BYTES = 1 << 30
WORKER = "kbench.benchmark.surrogates.worker"
SECRETS = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|SESSION", re.IGNORECASE)
"""Names of variables that hold what only their owner may use."""
Request = tuple[str, Any]
"""`make` with target and arguments, `fit` with the path of pickled training pairs, or `forecast` with queries."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a surrogate may use; its process asks the system for it (worker.py) before any of its code runs."""

    start_s: float = 120.0
    """Seconds to import and construct it: large models take a while to load."""
    fit_s: float = 3600.0
    """Seconds for `fit`."""
    forecast_s: float = 120.0
    """Seconds for one call of `forecast`."""
    memory_gb: float | None = None
    """Memory of each of its processes; four fifths of the machine's by default."""
    network: bool = False
    """Whether it may reach other machines."""
    variables: tuple[str, ...] = ()
    """Variables it gets although their names look like secrets."""
    hidden: tuple[str, ...] = ()
    """Folders it must not see: they hold the answers."""

    def for_worker(self) -> str:
        """The worker's argument."""
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory_bytes = int(0.8 * machine if self.memory_gb is None else self.memory_gb * 1e9)
        return json.dumps({"memory_bytes": memory_bytes, "network": self.network, "hidden": self.hidden})

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The environment without secrets, and with our own search path for modules."""
        open_ones = {
            name: value for name, value in variables.items() if name in self.variables or not SECRETS.search(name)
        }
        return open_ones | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


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
                facts = self._ask(("make", (self._target, dict(self._arguments))), dict, self._limits.start_s)
                self._facts = SurrogateFacts(**facts)
            except (NoAnswerError, TypeError) as error:
                self.stop()
                raise UserError(f"surrogate {self._target.name!r} could not be made: {error}") from None
            if self._training is not None:
                self._ask(("fit", str(self._training)), bool, self._limits.fit_s)
        return self._facts

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Let it learn; the training file is kept so that a restarted process learns again."""
        self.start()
        folder = scratch.make_folder()
        file = folder / "training.pickle"
        file.write_bytes(pickle.dumps(list(train)))
        try:
            self._ask(("fit", str(file)), bool, self._limits.fit_s)
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
        rows = self._ask(("forecast", list(queries)), list, self._limits.forecast_s)
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
                [sys.executable, "-m", WORKER, str(theirs.fileno()), self._limits.for_worker()],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self._limits.environment(os.environ),
            )
            janitor.watch_group(self._process.pid)
        self._socket = ours

    def _ask(self, request: Request, expected: type, timeout_s: float) -> Any:
        """Send, wait, read. Everything but an exception of the surrogate ends the process."""
        try:
            reply = json.loads(self._exchanged(pickle.dumps(request), timeout_s))
        except BaseException as error:
            self.stop()
            if isinstance(error, ValueError | RecursionError):
                raise NoAnswerError("sent no message") from None
            raise
        if isinstance(reply, dict) and "failed" in reply:
            raise NoAnswerError(str(reply["failed"]))
        result = reply.get(request[0]) if isinstance(reply, dict) else None
        if not isinstance(result, expected):
            self.stop()
            raise NoAnswerError("sent no answer to the request")
        return result

    def _exchanged(self, request: bytes, timeout_s: float) -> bytes:
        """The line that answers a request; a socket's timeout of zero would mean not to wait at all."""
        assert self._socket is not None
        deadline = time.monotonic() + timeout_s
        reply = bytearray()
        try:
            self._socket.settimeout(timeout_s)
            self._socket.sendall(request)
            while not reply.endswith(b"\n"):
                self._socket.settimeout(max(deadline - time.monotonic(), 1e-3))
                part = self._socket.recv(1 << 20)
                reply += part
                if not part or len(reply) > LARGEST_ANSWER_BYTES:
                    raise NoAnswerError(self._death())
        except TimeoutError:
            raise NoAnswerError(f"no answer within {timeout_s:g} s") from None
        except ConnectionError:
            raise NoAnswerError(self._death()) from None
        return bytes(reply)

    def _death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        return f"its process ended with exit code {code}" if code >= 0 else f"its process was killed by signal {-code}"
