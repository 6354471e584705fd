"""Parse a foreign file in a process of its own.

A broken Parquet file can crash the library that reads it, or make it ask for all memory. So requests go to a small
server process, which forks for each; the fork has limits on memory and time, and its death costs that file alone.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO, Any

from kbench.loaders.storage import janitor
from kbench.schemas import DataError

MEMORY_BYTES = 4 << 30
"""Address space of a fork; libraries and their arenas take most of it."""
DATA_BYTES = 3 << 30
"""What it may take beside what the server has."""
SECONDS = 60
PATIENCE = 8
"""How many times longer than its processor time a fork may take: the machine may be busy."""
HEADER = struct.Struct(">cQ")
OK, END, REFUSED, DIED = b"o", b"e", b"r", b"d"


class Reader:
    """The parent's end: hand over a request, get the parser's answer back, whole or in pieces."""

    def __init__(self, parser: str) -> None:
        """Name the parser; the server starts with the first request.

        Args:
            parser: `module:function`, called in the fork with the request's bytes. A `warm_up` in that module is
                called once in the server; `CPU_SECONDS` and `DATA_BYTES` there replace the limits of a fork.
        """
        self._parser = parser
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None

    def read(self, data: bytes, name: str) -> bytes:
        """The parser's whole answer."""
        with self._lock:
            return b"".join(self._pieces(data, name))

    def stream(self, data: bytes, name: str) -> Iterator[bytes]:
        """The parser's answer in the pieces it comes in."""
        if self._lock.acquire(blocking=False):
            try:
                yield from self._pieces(data, name)
            finally:
                self._lock.release()
            return
        # Someone is halfway through an answer, and may never take the rest: they keep this server.
        other = Reader(self._parser)
        try:
            yield from other.stream(data, name)
        finally:
            other.close()

    def _pieces(self, data: bytes, name: str) -> Iterator[bytes]:
        server = self._started()
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            _send(server.stdin, OK, data)
        except BrokenPipeError:
            self.close()
            raise DataError(f"{name} cannot be read (the reader did not start)") from None
        finished = False
        try:
            kind, payload = _receive(server.stdout)
            while kind == OK:
                yield payload
                kind, payload = _receive(server.stdout)
            finished = True
        finally:
            # Whoever asked may have lost interest halfway: the rest goes with the server.
            if server.poll() is not None or not finished:
                self.close()
        if kind == DIED:
            raise DataError(f"{name} cannot be read (the reader {payload.decode()})")
        if kind == REFUSED:
            raise DataError(f"{name}: {payload.decode('utf-8', 'replace')}")

    def _started(self) -> subprocess.Popen[bytes]:
        if self._server is None:
            places = (path for path in sys.path if path not in ("", os.getcwd()))
            environment = {"PYTHONPATH": os.pathsep.join(places), "PATH": os.defpath}
            # Other allocators reserve a gigabyte at once, which counts against a fork's limit.
            environment["ARROW_DEFAULT_MEMORY_POOL"] = "system"
            # Some builds of Python find their own library by it.
            environment |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", "kbench.loaders.storage.isolation", self._parser],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            janitor.watch_group(self._server.pid)
        return self._server

    def close(self) -> None:
        """End the server."""
        server, self._server = self._server, None
        if server is None:
            return
        for pipe in (server.stdin, server.stdout):
            # Closing writes what is left of a request; one that died early takes none of it.
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()
        janitor.end_group(server.pid)
        server.wait()


@functools.cache
def shared_reader(parser: str) -> Reader:
    """One server per parser for the whole process, ended with it."""
    reader = Reader(parser)
    atexit.register(reader.close)
    return reader


def _send(stream: IO[bytes], kind: bytes, data: bytes) -> None:
    stream.write(HEADER.pack(kind, len(data)))
    stream.write(data)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        return DIED, b"ended"
    kind, size = HEADER.unpack(head)
    data = stream.read(size)
    return (kind, data) if len(data) == size else (DIED, b"ended")


def serve(parser: str, requests: IO[bytes], answers: IO[bytes]) -> None:
    """The server: one fork per request, until the parent goes away."""
    module_name, _, function = parser.partition(":")
    # Imported before forking, so that a fork costs milliseconds.
    module = importlib.import_module(module_name)
    getattr(module, "warm_up", lambda: None)()
    while True:
        kind, data = _receive(requests)
        if kind == DIED:
            return
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            limits = (getattr(module, "CPU_SECONDS", SECONDS), getattr(module, "DATA_BYTES", DATA_BYTES))
            _parse(getattr(module, function), data, writable, *limits)
        os.close(writable)
        with open(readable, "rb") as pipe:
            kind, payload = _receive(pipe)
            while kind == OK:
                _send(answers, OK, payload)
                kind, payload = _receive(pipe)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kind, payload = DIED, f"was ended by {signal.Signals(os.WTERMSIG(status)).name}".encode()
        _send(answers, kind, payload)


def _parse(parser: Callable[[bytes], Any], data: bytes, writable: int, seconds: int, data_bytes: int) -> None:
    """In the fork: parse under limits, answer, and leave without running anything else."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    with open("/proc/self/status") as status:
        most = data_bytes + next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(PATIENCE * seconds)  # one that waits for something uses no time of the processor
    with open(writable, "wb") as pipe:
        try:
            answer = parser(data)
            for piece in [answer] if isinstance(answer, bytes) else answer:
                _send(pipe, OK, piece)
            kind, payload = END, b""
        except DataError as error:
            kind, payload = REFUSED, str(error).encode("utf-8", "replace")
        except MemoryError:
            kind, payload = REFUSED, b"needs more memory than any file of its kind does"
        _send(pipe, kind, payload)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1], sys.stdin.buffer, sys.stdout.buffer)
