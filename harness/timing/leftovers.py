"""Leftovers: what calls returned, overwritten at once and held for a while.

Overwritten, so that the outputs of later calls, audited or not, do not land on an answer. Held, so that the next
calls get other places: where a few lines of output lie decides how long a short kernel waits for them, and an allocator
left to itself returns the same place throughout a process.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kbench.benchmark.problems.definition import as_tuple
from kbench.harness.device.device import Device

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.bench.context import Buffers

HELD = 16
"""Calls whose outputs are held; the outputs of the next lie elsewhere."""
HELD_BYTES = 512 << 20
"""Outputs are held while that many of them fit in here: a kernel that writes more is too long for places to matter."""


class Leftovers:
    """Outputs of the latest calls on a device."""

    def __init__(self, device: Device) -> None:
        """Hold nothing yet."""
        self.device = device
        self._held: deque[list[Tensor]] = deque(maxlen=HELD)

    def reserve(self, sizes: Sequence[int]) -> None:
        """Make places for the outputs of calls to come, without answers in them.

        Args:
            sizes: bytes of each output of a call.
        """
        places = HELD + 1 if HELD * sum(sizes) <= HELD_BYTES else 2
        # Outputs of one size share their places.
        for size, outputs in Counter(sizes).items():
            self.device.poison(size, outputs * places)

    def take(self, returned: Any, buffers: Buffers) -> None:
        """Overwrite what a call returned, and hold it.

        Args:
            returned: whatever the kernel returned; only plain tensors are touched.
            buffers: the buffers it was called on, which are left alone.
        """
        import torch

        outputs = [o for o in as_tuple(returned) if type(o) is torch.Tensor and not buffers.shares_memory(o)]
        for output in outputs:
            self.device.erase(output)
        # Holding a view holds its whole storage.
        if HELD * sum(o.untyped_storage().nbytes() for o in outputs) <= HELD_BYTES:
            self._held.append(outputs)

    def clear(self) -> None:
        """Release everything."""
        self._held.clear()
