"""Fingerprints: what each call of a kernel left in its outputs, as one number, so that none need be kept."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kbench.harness.device.kernels import mixing

if TYPE_CHECKING:
    from kbench.harness.device.device import CudaDevice
    from kbench.harness.verify.reference_inputs import Drawing

MOST_CALLS = 8192
"""Calls whose fingerprints are kept until they are asked for."""
WHERE = struct.Struct("<qQ")
"""A random number, which the pad of a fingerprint depends on, and where the fingerprint goes."""


class Fingerprints:
    """A number for the outputs of each call, taken when they are overwritten, and the inputs they belong to."""

    def __init__(self, device: CudaDevice) -> None:
        """Make room."""
        self._base, self._nonces = mixing.random_words(MOST_CALLS), mixing.random_words(MOST_CALLS)
        """What fingerprints are added to: zeros would show a kernel how many calls there were before it. And what hides
        them: a kernel that sees both numbers could learn what its own outputs add."""
        self._values = self._base.to(device.torch_name, copy=True)
        self._inputs: list[Drawing] = []

    def expect(self, inputs: Drawing) -> bytes:
        """What says where the number of a call on some inputs goes."""
        at = len(self._inputs)
        assert at < MOST_CALLS, "the fingerprints of calls must be taken now and then"
        self._inputs.append(inputs)
        return WHERE.pack(int(self._nonces[at]), int(self._values.data_ptr()) + 8 * at)

    def take(self) -> list[tuple[Drawing, int]]:
        """Those of the calls since the last time, in order; waits for the device."""
        used = len(self._inputs)
        values = self._values[:used].cpu() - self._base[:used] - mixing.pads(self._nonces[:used])
        found = list(zip(self._inputs, values.tolist(), strict=True))
        self._base[:used], self._nonces[:used] = mixing.random_words(used), mixing.random_words(used)
        # All of them: a kernel may have left a note where none was expected.
        self._values.copy_(self._base)
        self._inputs.clear()
        return found
