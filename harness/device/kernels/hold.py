"""Hold: a kernel that keeps a stream busy until the host has queued what comes next."""

from __future__ import annotations

import ctypes
import secrets
from typing import Any

from kbench.harness.device.driver import Launch, LaunchShape, Parameters
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word, cuda_source

SOURCE = cuda_source("hold")


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

        function = OwnKernels(SOURCE, properties).function("hold_stream")
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
