"""Parse a stranger's Parquet in a process of its own.

A broken Parquet file can crash the library that reads it, or make it ask for all memory. So the bytes go to a small
server process, which forks for each file; the fork has limits on memory and time, and its death costs that file alone.
"""

from __future__ import annotations

import atexit
import functools
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
from typing import IO

from kbench.schemas import DataError

MEMORY_BYTES = 4 << 30
SECONDS = 60
HEADER = struct.Struct(">cQ")
OK, REFUSED, DIED = b"o", b"r", b"d"


class Reader:
    """The parent's end: hand over bytes, get an Arrow stream back."""

    def __init__(self) -> None:
        """Start the server."""
        environment = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PATH": os.defpath}
        self._lock = threading.Lock()
        self._server = subprocess.Popen(
            [sys.executable, "-m", "kbench.leaderboard.reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )

    def read(self, data: bytes, name: str) -> bytes:
        """The file's rows as an Arrow IPC stream.

        Raises:
            DataError: the file is refused, or reading it broke the reader.
        """
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        with self._lock:
            _send(self._server.stdin, OK, data)
            verdict, payload = _receive(self._server.stdout)
        if verdict == OK:
            return payload
        if verdict == DIED:
            raise DataError(f"{name} cannot be read as Parquet (the reader {payload.decode()})")
        raise DataError(f"{name}: {payload.decode('utf-8', 'replace')}")

    def close(self) -> None:
        """End the server."""
        if self._server.stdin is not None:
            self._server.stdin.close()
        if self._server.stdout is not None:
            self._server.stdout.close()
        self._server.kill()
        self._server.wait()


@functools.cache
def shared_reader() -> Reader:
    """One server for the whole process, ended with it."""
    reader = Reader()
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
    return kind, stream.read(size)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """The server: one fork a file, until the parent goes away."""
    # Imported before forking, so that a fork costs milliseconds.
    from kbench.leaderboard import untrusted

    untrusted.warm_up()
    while True:
        kind, data = _receive(requests)
        if kind == DIED:
            return
        readable, writable = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(readable)
            _parse(data, writable)
        os.close(writable)
        with open(readable, "rb") as pipe:
            verdict, payload = _receive(pipe)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            verdict, payload = DIED, f"was ended by {signal.Signals(os.WTERMSIG(status)).name}".encode()
        _send(answers, verdict, payload)


def _parse(data: bytes, writable: int) -> None:
    """In the fork: parse under limits, answer, and leave without running anything else."""
    from kbench.leaderboard.untrusted import parquet_to_stream

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.alarm(2 * SECONDS)
    try:
        verdict, payload = OK, parquet_to_stream(data)
    except (DataError, MemoryError) as error:
        verdict, payload = REFUSED, str(error).encode()
    with open(writable, "wb") as pipe:
        _send(pipe, verdict, payload)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
