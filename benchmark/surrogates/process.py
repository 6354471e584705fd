"""A user's surrogate in its own process, as seen from ours: requests with a time limit, restarts, and a log.

Requests are pickles, which carry queries as they are. Replies are lines of JSON, because unpickling what a user's
process sends would run its code in ours.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kbench.benchmark.surrogates.hidden import hidden_places, hidden_remark, protected_folders, writable_folders
from kbench.benchmark.surrogates.protocol import NoAnswerError, NoReplyError, SurrogateFacts, forecast_from
from kbench.benchmark.surrogates.resolve import SurrogateTarget
from kbench.loaders.storage import janitor, scratch
from kbench.loaders.storage.namespaces import KILLED_BY
from kbench.schemas import Forecast, Query, Question, UserError

LARGEST_ANSWER_BYTES = 1 << 26
SHOWN = 3
"""Restrictions named of those that the system does not permit."""
WORKER = "kbench.benchmark.surrogates.worker"
OPEN_VARIABLES = frozenset((
    "PATH", "LD_LIBRARY_PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLUMNS", "LINES", "NO_COLOR", "LANG",
    "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP", "XDG_CACHE_HOME", "XDG_DATA_HOME", "VIRTUAL_ENV", "CONDA_PREFIX",
    "PYTHONHASHSEED", "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
    "PYTHONFAULTHANDLER", "PYTHONWARNINGS", "CC", "CXX", "CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "CUDA_CACHE_PATH", "CUBLAS_WORKSPACE_CONFIG",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
    "TORCH_HOME", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_HOME", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "TOKENIZERS_PARALLELISM", "HF_HOME", "HF_HUB_CACHE",
    "HUGGINGFACE_HUB_CACHE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_DATASETS_CACHE", "HF_XET_CACHE",
    "HF_ENDPOINT", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "KBENCH_HOME",
))  # fmt: skip
"""Variables that any surrogate gets, beside those of the locale; what a new name holds, nobody can tell by it."""
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
    """Variables it gets beside OPEN_VARIABLES."""
    answers: tuple[Path, ...] = ()
    """Folders that hold the answers; `hidden_places` says what is hidden beside them."""
    required: bool = False
    """Whether a surrogate is refused where the system does not permit all of this."""

    def for_worker(self, own: Path | None, run: Path | None) -> bytes:
        """The worker's first line.

        Raises:
            UserError: the file lies where answers do.
        """
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        memory_bytes = int(0.8 * machine if self.memory_gb is None else self.memory_gb * 1e9)
        places = {"hidden": hidden_places(self.answers, own), "protected": protected_folders(own, run)}
        places["writable"] = writable_folders(own)
        limits = {"memory_bytes": memory_bytes, "network": self.network} | places
        return json.dumps(limits, default=str).encode() + b"\n"

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The open part of the environment, and our own search path for modules."""
        names = {name for name in variables if name in OPEN_VARIABLES or name.startswith("LC_")} | {*self.variables}
        kept = {name: variables[name] for name in names if name in variables}
        if not (Path.home() / ".triton").exists():
            # It would make this folder, and may not.
            kept.setdefault("TRITON_HOME", str(Path.home() / ".cache"))
        # Modules beside the surrogate are found later; here they would take the place of Python's own.
        return kept | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path not in ("", os.getcwd()))}


class ProcessSurrogate:
    """Speaks to one worker process; starts it on first use and again after it died."""

    fits_from_file = True
    """Whether `fit` takes the path of a file of training pairs, too."""

    def __init__(
        self,
        target: SurrogateTarget,
        arguments: Mapping[str, Any],
        confinement: Confinement | None = None,
        log: Path | None = None,
    ) -> None:
        """Nothing is started yet."""
        self._target, self._arguments, self._log = target, arguments, log
        self._limits = confinement or Confinement()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._training: Path | None = None
        self._facts: SurrogateFacts | None = None
        self._hidden: Sequence[Path] = ()
        self._remarks: list[str] = []

    def start(self) -> SurrogateFacts:
        """Start the process and construct the surrogate.

        Returns:
            What it says of itself.
        """
        if self._process is None or self._facts is None:
            own = Path(self._target.location) if self._target.kind == "file" else None
            limits = self._limits.for_worker(own, self._log and self._log.parent)
            self._hidden = [Path(place) for place in json.loads(limits)["hidden"]]
            self._spawn()
            try:
                self._state(self._asked("confine", limits, list, self._limits.start_s))
                facts = self._ask(("make", (self._target, dict(self._arguments))), dict, self._limits.start_s)
                self._facts = SurrogateFacts(**facts)
            except (NoAnswerError, TypeError) as error:
                self.stop()
                named = f"surrogate {self._target.name!r} "
                fault = str(error).removeprefix(named)
                fault = fault if fault != str(error) else f"could not be made: {error}"
                raise UserError(f"{named}{fault}{self._see_log()}") from None
            if self._training is not None:
                self._ask(("fit", str(self._training)), bool, self._limits.fit_s)
        return self._facts

    def fit(self, train: Sequence[tuple[Query, Question]] | Path) -> None:
        """Let it learn from pairs or a file of them; it gets a copy, kept so that a restarted process learns again."""
        self.start()
        folder = scratch.make_folder()
        file = folder / "training.pickle"
        file.write_bytes(train.read_bytes() if isinstance(train, Path) else pickle.dumps(list(train)))
        try:
            self._ask(("fit", str(file)), bool, self._limits.fit_s)
        except NoAnswerError as error:
            scratch.remove_folder(folder)
            raise UserError(f"surrogate {self._target.name!r} failed in fit: {error}{self._see_log()}") from None
        self._training = file

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Its answers, checked one by one.

        Raises:
            NoAnswerError: there is none; the process is fresh on the next call.
        """
        self.start()
        try:
            rows = self._ask(("forecast", list(queries)), list, self._limits.forecast_s)
        except NoAnswerError as error:
            if len(queries) > 1:
                self._remarks = self._remarks or [f"a batch of {len(queries)} failed and was asked singly: {error}"]
            raise
        return [forecast_from(row) for row in rows if isinstance(row, dict) and isinstance(row.get("query_id"), str)]

    def remarks(self) -> list[str]:
        """What is to be known of its answers: a batch that fails costs time, though none of its answers may."""
        return self._remarks

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

    def _see_log(self) -> str:
        """Where the traceback stands."""
        return (
            f"; log: {self._log}" if self._log is not None and self._log.exists() and self._log.stat().st_size else ""
        )

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        if self._log is not None and not self._log.exists():
            janitor.watch_empty(self._log)
        with contextlib.ExitStack() as stack:
            stack.enter_context(theirs)
            output = sys.stderr.fileno() if self._log is None else stack.enter_context(self._log.open("ab")).fileno()
            self._process = subprocess.Popen(
                # -u: what it prints is in the log at once. -P, -s: a module in the working directory, or one that it
                # has planted among the user's packages, must not run before the process is confined.
                [sys.executable, "-u", "-P", "-s", "-m", WORKER, str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=self._limits.environment(os.environ),
            )
            janitor.watch_group(self._process.pid)
        self._socket = ours

    def _state(self, missing: Sequence[str]) -> None:
        """Say what the system does not permit, before any code of the surrogate runs; refuse it where that is asked."""
        if missing:
            more = f" and {len(missing) - SHOWN} more" if missing[SHOWN:] else ""
            reason = f"this system does not permit {'; '.join(missing[:SHOWN])}{more}"
            if self._limits.required:
                self.stop()
                raise UserError(f"{reason}, and --require-isolation is given; use a container or another machine")
            _say(f"kbench: {reason}; surrogate {self._target.name!r} runs without: docs/threat-model.md\n")

    def _ask(self, request: Request, expected: type, timeout_s: float) -> Any:
        return self._asked(request[0], pickle.dumps(request), expected, timeout_s)

    def _asked(self, kind: str, request: bytes, expected: type, timeout_s: float) -> Any:
        """Send, wait, read. Everything but an exception of the surrogate ends the process."""
        try:
            reply = json.loads(self._exchanged(request, timeout_s))
        except BaseException as error:
            self.stop()
            if isinstance(error, ValueError | RecursionError):
                raise NoAnswerError("sent no message") from None
            raise
        if isinstance(reply, dict) and "failed" in reply:
            raise NoAnswerError(hidden_remark(str(reply["failed"]), self._hidden))
        result = reply.get(kind) if isinstance(reply, dict) else None
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
                    raise NoReplyError(self._death())
        except TimeoutError:
            raise NoReplyError(f"no answer within {timeout_s:g} s") from None
        except ConnectionError:
            raise NoReplyError(self._death()) from None
        return bytes(reply)

    def _death(self) -> str:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return "closed its connection"
        limit = self._limits.memory_gb
        cause = "" if limit is None or code == 0 else f"; --memory-gb {limit:g} may be too little"
        if 0 <= code <= KILLED_BY:
            return f"its process ended with exit code {code}{cause}"
        return f"its process was killed by signal {-code if code < 0 else code - KILLED_BY}{cause}"


@functools.cache
def _say(line: str) -> None:
    """A line on stderr, once however many processes there are."""
    sys.stderr.write(line)
