"""Messages between a parent and its workers."""

import itertools
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kbench.harness.isolate.protocol import KEY_BYTES, Channel, ClosedError, ProtocolError, offer_key, take_key

Pair = tuple[Channel, Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    here, there = socket.socketpair()
    with here, there:
        yield offer_key(here, b"k" * KEY_BYTES), take_key(there), there


def test_messages_arrive_whole_and_in_order(pair: Pair) -> None:
    parent, worker, _ = pair
    for number in range(3):
        worker.send({"n": number, "text": "x" * 50_000})
    assert [m["n"] for m in parent.drain()] == [0, 1, 2]


class Flood:
    """A socket on which another message has always arrived."""

    def __init__(self, sender: Channel, kept: socket.socket) -> None:
        self._sender, self._kept = sender, kept

    def fileno(self) -> int:
        self._sender.send({"n": 1})
        return self._kept.fileno()

    def recv(self, size: int) -> bytes:
        return self._kept.recv(size)


def test_who_sends_without_end_does_not_keep_its_reader(pair: Pair) -> None:
    parent, worker, _ = pair
    flood: Any = Flood(worker, parent.socket)
    parent.socket = flood
    assert not parent.proven
    assert 0 < len(list(itertools.islice(parent.drain(), 10_000))) < 10_000
    assert parent.proven
    # Nothing is lost: what was left comes with the next call.
    assert next(parent.drain()) == {"n": 1}


def test_bytes_without_the_key_are_refused(pair: Pair) -> None:
    parent, _, raw = pair
    raw.sendall(b"\x00\x00\x00\x02{}" + b"\x00" * 64)
    with pytest.raises(ProtocolError, match="not authentic"):
        parent.receive()


def test_a_repeated_message_is_refused(pair: Pair) -> None:
    parent, worker, raw = pair
    recorded = bytearray()
    aside, kept = socket.socketpair()
    with aside, kept:
        worker.socket = aside
        worker.send({"n": 1})
        recorded += kept.recv(1 << 16)
    raw.sendall(recorded)
    assert parent.receive() == {"n": 1}
    raw.sendall(recorded)
    with pytest.raises(ProtocolError):
        parent.receive()


def test_an_absurd_length_is_refused_before_memory_is_taken(pair: Pair) -> None:
    parent, _, raw = pair
    raw.sendall(b"\xff" * 40)
    with pytest.raises(ProtocolError, match="bytes"):
        parent.receive()


def test_a_hang_up_is_noticed_after_the_last_message(pair: Pair) -> None:
    parent, worker, _ = pair
    worker.send({"last": True})
    worker.close()
    assert parent.receive() == {"last": True}
    with pytest.raises(ClosedError):
        parent.receive()


@pytest.mark.parametrize("awake_s", [0.0, 0.05, 60.0])
def test_who_waits_awake_gets_the_message_when_it_comes(pair: Pair, awake_s: float) -> None:
    parent, worker, _ = pair
    later = threading.Timer(0.1, worker.send, [{"n": 1}])
    later.start()
    assert parent.receive(awake_s=awake_s) == {"n": 1}
    later.join()


@pytest.mark.parametrize("awake_s", [0.0, 60.0])
def test_a_channel_closed_on_this_side_says_so(pair: Pair, awake_s: float) -> None:
    parent, _, _ = pair
    parent.close()
    with pytest.raises(ClosedError):
        parent.receive(awake_s=awake_s)
