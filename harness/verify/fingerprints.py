"""Fingerprints: what each call of a kernel left in its outputs, as one number, so that none need be kept."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from kbench.harness.device.device import CudaDevice
    from kbench.harness.verify.reference_inputs import Drawing

MOST_CALLS = 8192
"""Calls whose fingerprints are kept until they are asked for."""


class Fingerprints:
    """A number for the outputs of each call, taken when they are overwritten, and the inputs they belong to."""

    def __init__(self, device: CudaDevice) -> None:
        """Make room."""
        self._base = random_words(MOST_CALLS)
        """What fingerprints are added to: zeros would show a kernel how many calls there were before it."""
        self._values = self._base.to(device.torch_name, copy=True)
        self._inputs: list[Drawing] = []

    def expect(self, inputs: Drawing) -> int:
        """Where the number of a call on some inputs goes."""
        assert len(self._inputs) < MOST_CALLS, "the fingerprints of calls must be taken now and then"
        self._inputs.append(inputs)
        return int(self._values.data_ptr()) + 8 * (len(self._inputs) - 1)

    def take(self) -> list[tuple[Drawing, int]]:
        """Those of the calls since the last time, in order; waits for the device."""
        used = len(self._inputs)
        values = self._values[:used].cpu() - self._base[:used]
        found = list(zip(self._inputs, values.tolist(), strict=True))
        self._base[:used] = random_words(used)
        # All of them: a kernel may have left a note where none was expected.
        self._values.copy_(self._base)
        self._inputs.clear()
        return found


def random_words(count: int) -> Tensor:
    """Numbers of eight bytes that nobody can foresee, in host memory."""
    import torch

    # Not by `random`: who sees many of its numbers can tell those to come. An empty buffer makes no tensor.
    return torch.frombuffer(bytearray(secrets.token_bytes(8 * count + 8)), dtype=torch.int64)[:count]
