"""Stream: a hold that keeps a stream busy until the host has queued what comes next, and stamps, a second clock.

CUDA events leave their times in a page that the driver maps at a fixed address, where machine code can move them. A
stamp is a launch of one thread that writes the GPU's own clock. It lies in memory that machine code can write too, but
its tag cannot be made up: it is the SipHash-2-4 of the time, the stamp's place in its batch and a random number of the
batch, under a key that is a constant in the harness's machine code. A changed stamp has the wrong tag, and an old one
the tag of another batch or place. Tags are checked where they were made, when nothing else runs there: on the host it
would take as long as a batch.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import Any

from kbench.harness.device.driver import Launch, LaunchShape, Parameters
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word, cuda_source

HOLD_SOURCE = cuda_source("hold")


class Hold:
    """Holds a stream by a word in the host's memory, one hold at a time.

    The number that releases a hold is random: a kernel that overwrites the word can make holds longer, up to their
    limit, but not shorter.
    """

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel for a device.

        Args:
            properties: the device's, as torch reports them.
            stream: handle of the stream to hold.
        """
        import torch

        function = OwnKernels(HOLD_SOURCE, properties).function("hold_stream")
        self._memory = torch.zeros(1, dtype=torch.int64).pin_memory()
        self._flag = ctypes.c_uint64.from_address(self._memory.data_ptr())
        self._parameters = Parameters(function, [as_word(self._memory.data_ptr()), bytes(8), bytes(8)])
        self._launch = Launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), self._parameters, stream)
        self._released = 0

    def queue(self, cycles: int) -> None:
        """Queue a hold that lasts until it is released, or so many cycles of the device's clock."""
        self._released = secrets.randbits(64)
        self._flag.value = ~self._released
        self._parameters.set(1, as_word(self._released))
        self._parameters.set(2, as_word(cycles))
        self._launch.queue()

    def release(self) -> None:
        """Release the latest hold."""
        self._flag.value = self._released


MOST_STAMPS = 512
"""Stamps of a batch that the table has room for."""
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
"""What the four words of SipHash's state begin with, before the two words of the key are added in turn."""
STAMP_SOURCE = cuda_source("stamp")


def keyed_source(key: tuple[int, int]) -> str:
    """CUDA C++ of stamps under a key."""
    # Not constants of the language: the compiler would put those into memory, where kernels can read them.
    return "".join(f"#define KEYED_{at} {word ^ key[at % 2]:#x}ull\n" for at, word in enumerate(INITIAL)) + STAMP_SOURCE


class StampClock:
    """Stamps on a device, in batches: queued in order, read together."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel for a device.

        Args:
            properties: the device's, as torch reports them.
            stream: handle of the stream that stamps are queued on.
        """
        import torch

        code = OwnKernels(keyed_source((secrets.randbits(64), secrets.randbits(64))), properties)
        function, check = code.function("stamp"), code.function("check")
        self._table = torch.zeros(MOST_STAMPS, 2, dtype=torch.int64, device="cuda")
        self._parameters = Parameters(function, [as_word(self._table.data_ptr()), bytes(8), bytes(8)])
        self._launch = Launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), self._parameters, stream).queue
        self._places = [as_word(place) for place in range(MOST_STAMPS)]
        self._checked = Parameters(check, [as_word(self._table.data_ptr()), bytes(8)])
        self._check = Launch(check, LaunchShape((1, 1, 1), (MOST_STAMPS, 1, 1)), self._checked, stream).queue
        self._count = 0

    def begin(self) -> None:
        """Begin a batch; stamps that were not read are dropped."""
        self._count, nonce = 0, as_word(secrets.randbits(64))
        self._parameters.set(1, nonce)
        self._checked.set(1, nonce)

    def queue(self) -> int:
        """Queue a stamp; its place in the batch."""
        place = self._count
        self._parameters.set(2, self._places[place])
        self._launch()
        self._count += 1
        return place

    def read(self) -> list[float] | None:
        """Microseconds from the batch's first stamp to each; None when one is not as it was written. Waits for them."""
        import numpy as np

        self._check()
        times_ns, genuine = self._table[: self._count].cpu().numpy().T
        if not genuine.all():
            return None
        # Nanoseconds since 1970 have more digits than a float.
        since_first: list[float] = ((times_ns - times_ns[0]) / np.float64(1e3)).tolist()
        return since_first
