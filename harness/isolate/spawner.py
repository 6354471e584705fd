"""Spawner: the parent's side of the zygote, and a handle on each worker it forked."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import json
import os
import secrets
import select
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kbench
from kbench.harness.isolate import sandbox
from kbench.harness.isolate.protocol import KEY_BYTES, Channel, ClosedError, ProtocolError, offer_key
from kbench.loaders.storage import janitor, scratch
from kbench.schemas import InfrastructureError

ZYGOTE = "kbench.harness.worker.zygote"
"""The module whose `main` is the zygote. A process of its own runs it; this one never imports it."""
START_SECONDS, EXIT_SECONDS = 120.0, 0.5
"""Longest wait for a zygote to be ready, and for its word on how a worker has ended."""
LOG_TAIL, LONGEST_CHARACTER = 600, 4
"""Characters quoted of a log, and the most bytes that one of them takes."""


@dataclasses.dataclass(slots=True, eq=False)
class WorkerProcess:
    """One worker, as its parent sees it."""

    pid: int
    channel: Channel
    role: str
    scratch: Path
    settings: Mapping[str, Any]
    exit_code: int | None = None
    """Set when the zygote has reported its death."""
    excess: tuple[str, str] | None = None
    """Status and reason, when the zygote ended it for what its processes used."""
    killed: float = 0.0
    """When it was told to end."""

    def kill(self) -> None:
        """End the worker and everything it started, at once."""
        self.killed = time.monotonic()
        for end in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                end(self.pid, signal.SIGKILL)
        self.channel.close()

    def log_tail(self) -> str:
        """The end of what it wrote to its standard streams; nothing where foreign code has replaced the file."""
        # By this name lies whatever foreign code put there: a link to a secret, a pipe without a writer.
        safely = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            log = os.open(self.scratch / sandbox.LOG_NAME, safely)
        except OSError:
            return ""
        try:
            status, size = os.fstat(log), LONGEST_CHARACTER * LOG_TAIL
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                return ""
            tail = os.pread(log, size, max(0, status.st_size - size))
        finally:
            os.close(log)
        return tail.decode(errors="replace")[-LOG_TAIL:].strip()

    def clean(self) -> None:
        """Remove its scratch folder."""
        scratch.remove_tree(self.scratch)


class Spawner:
    """Starts workers through a zygote, and the zygote again should it die."""

    def __init__(self, *, planning: bool = False, counting: bool = False, interpret: bool = False) -> None:
        """Prepare to start workers.

        Args:
            planning: whether they plan kernels or hold devices.
            counting: whether those that plan also count foreign kernels, which call any of torch's operators.
            interpret: run Triton kernels through its interpreter, on the CPU; decided before Triton is imported.
        """
        self._purpose = "count" if counting else "plan" if planning else "run"
        self._variables = {"TRITON_INTERPRET": "1"} if interpret else {}
        self.scratch = scratch.make_folder()
        self._zygote: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._pending, self._ready = b"", False
        self._exits: dict[int, int] = {}
        self._excesses: dict[int, tuple[str, str]] = {}

    def start(self) -> None:
        """Start the zygote and do not wait until it is ready, so that several get ready at once."""
        if self._zygote is not None and self._zygote.poll() is None and self._control is not None:
            return
        self._control, there = self._pair()
        self._zygote = self._start_zygote(there)
        janitor.watch_group(self._zygote.pid)
        there.close()
        self._pending, self._ready = b"", False

    def spawn(self, role: str, **settings: Any) -> WorkerProcess:
        """Fork a worker.

        Raises:
            InfrastructureError: the zygote cannot be started.
        """
        control = self._ensure_zygote()
        here, there = socket.socketpair()
        folder = Path(tempfile.mkdtemp(prefix=f"{role}-", dir=self.scratch))
        request = {"role": role, "scratch": str(folder), **settings}
        try:
            socket.send_fds(control, [json.dumps(request).encode()], [there.fileno()])
            answer = self._next_message("spawned")
        except OSError as error:
            last_words = self._last_words()
            self._stop_zygote()
            raise InfrastructureError(f"cannot start a {role} worker: {last_words or error}") from error
        finally:
            there.close()
        channel = offer_key(here, secrets.token_bytes(KEY_BYTES))
        return WorkerProcess(int(answer["spawned"]), channel, role, folder, settings)

    def exit_code(self, worker: WorkerProcess) -> int | None:
        """How a worker that hung up has ended; None when that is not known in time."""
        end = time.monotonic() + EXIT_SECONDS
        while worker.pid not in self._exits and time.monotonic() < end and self._control is not None:
            self._poll(0.02)
        worker.exit_code = self._exits.pop(worker.pid, None)
        worker.excess = self._excesses.pop(worker.pid, None)
        return worker.exit_code

    def has_ended(self, worker: WorkerProcess) -> bool:
        """Whether a killed worker is gone, its device context with it; does not wait."""
        if worker.exit_code is None and worker.pid not in self._exits:
            self._poll(0.0)
        if self._control is None:
            return True
        if worker.pid in self._exits:
            worker.exit_code = self._exits.pop(worker.pid)
        return worker.exit_code is not None

    def _poll(self, timeout: float) -> None:
        try:
            self._read_messages(timeout)
        except OSError:
            # The zygote is gone, and its workers with it; the next spawn starts another.
            self._stop_zygote()

    def close(self) -> None:
        """End the zygote and remove all scratch folders."""
        self._stop_zygote()
        scratch.remove_folder(self.scratch)

    def _ensure_zygote(self) -> socket.socket:
        self.start()
        assert self._zygote is not None
        assert self._control is not None
        if not self._ready:
            try:
                self._next_message("ready")
            except OSError as error:
                raise InfrastructureError(f"workers cannot start: {self._last_words() or error}") from error
            self._ready = True
        return self._control

    def _last_words(self) -> str:
        """The end of what a zygote that has ended wrote to its standard error; nothing while it is running."""
        if self._zygote is None or self._zygote.stderr is None:
            return ""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._zygote.wait(1.0)
            return self._zygote.stderr.read().decode(errors="replace")[-LOG_TAIL:].strip()
        return ""

    def _pair(self) -> tuple[socket.socket, socket.socket]:
        return socket.socketpair()

    def _start_zygote(self, control: socket.socket) -> subprocess.Popen[bytes]:
        package = str(Path(kbench.__file__).resolve().parents[1])
        # -P and an explicit path: the caller's working directory must not shadow a module in the worker.
        code = f"import sys; sys.path.insert(0, {package!r}); from {ZYGOTE} import main; main()"
        return subprocess.Popen(
            [sys.executable, "-P", "-c", code, str(control.fileno()), str(self.scratch), self._purpose],
            pass_fds=[control.fileno()],
            # What it imports may try out the folder of temporary files, with a file that a kill would leave there.
            env=sandbox.environment() | self._variables | {"TMPDIR": str(self.scratch)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    def _next_message(self, wanted: str) -> dict[str, Any]:
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            message = self._read_messages(0.5, wanted)
            if message is not None:
                return message
        raise OSError(f"no answer within {START_SECONDS:.0f} s")

    def _read_messages(self, timeout: float, wanted: str | None = None) -> dict[str, Any] | None:
        if self._control is None:
            return None
        if b"\n" not in self._pending:
            if not select.select([self._control], [], [], timeout)[0]:
                return None
            chunk = self._control.recv(1 << 16)
            if not chunk:
                raise OSError("the worker starter has ended")
            self._pending += chunk
        while b"\n" in self._pending:
            line, self._pending = self._pending.split(b"\n", 1)
            message: dict[str, Any] = json.loads(line)
            if "died" in message:
                self._exits[message["died"]] = message["code"]
            elif "exceeded" in message:
                self._excesses[message["exceeded"]] = message["status"], message["reason"]
            elif wanted in message:
                return message
        return None

    def _stop_zygote(self) -> None:
        if self._control is not None:
            self._control.close()
        if self._zygote is not None:
            self._zygote.kill()
            janitor.end_group(self._zygote.pid)
            self._zygote.wait()
            if self._zygote.stderr is not None:
                self._zygote.stderr.close()
        self._zygote, self._control = None, None


class OracleProcess:
    """Holds a device's expected answers: started at once, and waited for when the first kernel goes there."""

    def __init__(self, spawner: Spawner, gpu: str, memory_bytes: int | None = None) -> None:
        """Start it; all processes together may use so much of the GPU's memory.

        Raises:
            InfrastructureError: no process can be started.
        """
        address = str(Path(tempfile.mkdtemp(prefix="oracle-", dir=spawner.scratch)) / "socket")
        self.connection = {"address": address, "key": secrets.token_hex(KEY_BYTES)}
        """The address and key by which a worker asks it."""
        self._process = spawner.spawn("oracle", gpu=gpu, early=True, memory_bytes=memory_bytes, **self.connection)
        self._ready = False

    def wait(self) -> None:
        """Wait until it can be asked.

        Raises:
            InfrastructureError: it could not start.
        """
        if self._ready:
            return
        try:
            message = self._process.channel.receive()
        except (ClosedError, ProtocolError) as error:
            reason = self._process.log_tail() or error
            raise InfrastructureError(f"the process that holds the answers did not start: {reason}") from error
        if "broken" in message:
            raise InfrastructureError(str(message["broken"]))
        self._ready = True

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.clean()


_SHARED: dict[tuple[object, ...], Spawner] = {}
"""Spawners of this process that outlive a harness, by what their workers are for and the environment they get."""


def shared_spawner(*, planning: bool = False, counting: bool = False, interpret: bool = False) -> Spawner:
    """A spawner for all harnesses of this process, so that only the first waits for its zygote to import torch.

    It is closed when the process ends. A process forked from this one gets spawners of its own.
    """
    key = (os.getpid(), planning, counting, interpret, *sorted(sandbox.environment().items()))
    if key not in _SHARED:
        _SHARED[key] = Spawner(planning=planning, counting=counting, interpret=interpret)
    return _SHARED[key]


def start_early() -> None:
    """Have the shared zygotes import while this process is still finding out what to measure; nothing without a GPU.

    Not where a problem comes from a file: they must know of the file when they start.
    """
    if Path("/dev/nvidiactl").exists():
        for planning in (False, True):
            shared_spawner(planning=planning).start()


@atexit.register
def close_shared() -> None:
    """Close the spawners this process shares."""
    for key in [key for key in _SHARED if key[0] == os.getpid()]:
        _SHARED.pop(key).close()
