"""Stamp: a launch of one thread that writes the GPU's own clock, a second witness of every timed call.

CUDA events leave their times in a page that the driver maps at a fixed address, where machine code can move them. A
stamp lies in memory that machine code can write too, but its tag cannot be made up: it depends on the time, on the
stamp's place in its batch, on a random number of the batch and on keys that are constants in the stamp's machine code.
A changed stamp has the wrong tag, and an old one the tag of another batch or place.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from kbench.harness.device.driver import Launch, LaunchShape, Parameters
from kbench.harness.device.kernels import mixing
from kbench.harness.device.kernels.own_kernels import OwnKernels, as_word

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_STAMPS = 512
"""Stamps of a batch that the table has room for."""
SOURCE = r"""
extern "C" __global__ void stamp(Word* table, Word nonce, Word place) {
    Word time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
    table[2 * place] = time;
    table[2 * place + 1] = pad(nonce, time, place);
}
"""


class StampClock:
    """Stamps on a device, in batches: queued in order, read together."""

    def __init__(self, properties: Any, stream: int) -> None:
        """Compile the kernel for a device.

        Args:
            properties: the device's, as torch reports them.
            stream: handle of the stream that stamps are queued on.
        """
        import torch

        function = OwnKernels(mixing.source(mixing.STAMPS) + SOURCE, properties).function("stamp")
        self._table = torch.zeros(MOST_STAMPS, 2, dtype=torch.int64, device="cuda")
        self._parameters = Parameters(function, [as_word(self._table.data_ptr()), bytes(8), bytes(8)])
        self._launch = Launch(function, LaunchShape((1, 1, 1), (1, 1, 1)), self._parameters, stream).queue
        self._places = [as_word(place) for place in range(MOST_STAMPS)]
        self._count = self._nonce = 0

    def begin(self) -> None:
        """Begin a batch; stamps that were not read are dropped."""
        self._count, self._nonce = 0, secrets.randbits(64)
        self._parameters.set(1, as_word(self._nonce))

    def queue(self) -> int:
        """Queue a stamp; its place in the batch."""
        place = self._count
        self._parameters.set(2, self._places[place])
        self._launch()
        self._count += 1
        return place

    def read(self) -> Sequence[float | None]:
        """Microseconds from the batch's first stamp to each, None where a tag is wrong; waits for them."""
        import numpy as np

        times_ns, tags = self._table[: self._count].cpu().numpy().view(np.uint64).T
        genuine = tags == mixing.pad(self._nonce, times_ns, np.arange(self._count, dtype=np.uint64), mixing.STAMPS)
        # Nanoseconds since 1970 have more digits than a float.
        since_first = (times_ns - times_ns[:1]).astype(np.int64).tolist()
        return [ns / 1e3 if real else None for ns, real in zip(since_first, genuine.tolist(), strict=True)]
