"""Protocol: numbered JSON messages over a socket, each with a MAC, so that only the worker's own code can answer.

JSON, never pickle: what a worker sends is untrusted. The key arrives as the first message, before any kernel is
loaded, and never lies in the environment, on disk, or in a module.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import select
import socket
import struct
import time
from collections.abc import Iterator
from typing import Any

MAC_BYTES = 32
HEADER = struct.Struct(">I")
LONGEST_MESSAGE = 64 << 20
READS = 8
"""Most reads before `drain` returns: who sends without end must not keep its reader from everything else."""


class ProtocolError(Exception):
    """The other side sent something that its code would never send."""


class ClosedError(Exception):
    """The other side is gone."""


class Channel:
    """One end of a conversation."""

    def __init__(self, end: socket.socket, key: bytes) -> None:
        """Talk over a connected socket, authenticating with a key both ends have."""
        self.socket = end
        # A prepared MAC object: the key itself is kept nowhere.
        self._signer = hmac.new(key, digestmod=hashlib.sha256)
        self._sent, self._received = 0, 0
        self._buffer = bytearray()

    def fileno(self) -> int:
        """For select."""
        return self.socket.fileno()

    @property
    def proven(self) -> bool:
        """Whether the other side has shown to know the key."""
        return self._received > 0

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            ClosedError: the other side is gone.
        """
        body = json.dumps(message).encode()
        mac = self._mac(self._sent, body)
        self._sent += 1
        try:
            self.socket.sendall(HEADER.pack(len(body)) + mac + body)
        except OSError as error:
            raise ClosedError(str(error)) from error

    def receive(self, *, awake_s: float = 0.0) -> dict[str, Any]:
        """Wait for one message.

        Args:
            awake_s: how long to look for it again and again before falling asleep: being woken up takes a while.

        Raises:
            ClosedError: the other side is gone.
            ProtocolError: the message is not authentic.
        """
        asleep_at = time.monotonic() + awake_s
        while True:
            for message in self._messages():
                return message
            while time.monotonic() < asleep_at and not self._arrived():
                pass
            self._read()

    def drain(self) -> Iterator[dict[str, Any]]:
        """Messages that have arrived, without waiting; where there are many, the rest is left for the next call.

        Raises:
            ClosedError: the other side is gone, after its last whole message was yielded.
            ProtocolError: a message is not authentic.
        """
        yield from self._messages()
        for _ in range(READS):
            if not self._arrived():
                return
            self._read()
            yield from self._messages()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _arrived(self) -> bool:
        # Not select, which knows no descriptor beyond 1,023.
        poller = select.poll()
        try:
            poller.register(self.socket, select.POLLIN)
            return bool(poller.poll(0))
        except (OSError, ValueError) as error:
            # Closed on this side.
            raise ClosedError(str(error)) from error

    def _read(self) -> None:
        try:
            chunk = self.socket.recv(1 << 20)
        except OSError as error:
            raise ClosedError(str(error)) from error
        if not chunk:
            raise ClosedError("end of stream")
        self._buffer += chunk

    def _messages(self) -> Iterator[dict[str, Any]]:
        while len(self._buffer) >= HEADER.size + MAC_BYTES:
            (length,) = HEADER.unpack_from(self._buffer)
            if length > LONGEST_MESSAGE:
                raise ProtocolError(f"message of {length} bytes")
            whole = HEADER.size + MAC_BYTES + length
            if len(self._buffer) < whole:
                return
            mac = bytes(self._buffer[HEADER.size : HEADER.size + MAC_BYTES])
            body = bytes(self._buffer[HEADER.size + MAC_BYTES : whole])
            del self._buffer[:whole]
            if not hmac.compare_digest(mac, self._mac(self._received, body)):
                raise ProtocolError("message is not authentic")
            self._received += 1
            try:
                message = json.loads(body)
            except (ValueError, RecursionError):
                raise ProtocolError("message is not JSON") from None
            if not isinstance(message, dict):
                raise ProtocolError("message is not an object")
            yield message

    def _mac(self, number: int, body: bytes) -> bytes:
        signer = self._signer.copy()
        signer.update(struct.pack(">Q", number) + body)
        return signer.digest()


KEY_BYTES = 32


def offer_key(end: socket.socket, key: bytes) -> Channel:
    """Parent's side: hand the key over as the first bytes."""
    end.sendall(key)
    return Channel(end, key)


def take_key(end: socket.socket) -> Channel:
    """Worker's side: take the key before anything else runs."""
    key = b""
    while len(key) < KEY_BYTES:
        part = end.recv(KEY_BYTES - len(key))
        if not part:
            raise ClosedError("no key")
        key += part
    return Channel(end, key)
