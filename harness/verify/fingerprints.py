"""Fingerprints: what each call of a kernel left in its outputs, as one number, so that none need be kept."""

from __future__ import annotations

import secrets
import struct
from typing import TYPE_CHECKING

from kbench.harness.device.kernels import mixing

if TYPE_CHECKING:
    from kbench.harness.device.device import CudaDevice
    from kbench.harness.verify.reference_inputs import Drawing

MOST_CALLS = 8192
"""Calls whose fingerprints are kept until they are asked for."""
WHERE = struct.Struct("<2Q")
"""A random number, which the pad of a fingerprint depends on, and where the fingerprint goes."""


class Fingerprints:
    """A number for the outputs of each call, taken when they are overwritten, and the inputs they belong to."""

    def __init__(self, device: CudaDevice) -> None:
        """Make room."""
        self._base = mixing.random_words(MOST_CALLS)
        """What fingerprints are added to: zeros would show a kernel how many calls there were before it."""
        self._values = self._base.to(device.torch_name, copy=True)
        self._inputs: list[Drawing] = []
        self._pads: list[int] = []
        """What else is added: a kernel that sees the numbers of before and after could learn what its outputs add."""

    def expect(self, inputs: Drawing) -> bytes:
        """What says where the number of a call on some inputs goes."""
        at = len(self._inputs)
        assert at < MOST_CALLS, "the fingerprints of calls must be taken now and then"
        nonce, address = secrets.randbits(64), int(self._values.data_ptr()) + 8 * at
        self._inputs.append(inputs)
        self._pads.append(mixing.pad(nonce, address, mixing.WORD))
        return WHERE.pack(nonce, address)

    def take(self) -> list[tuple[Drawing, int]]:
        """Those of the calls since the last time, in order; waits for the device."""
        used = len(self._inputs)
        added = (self._values[:used].cpu() - self._base[:used]).tolist()
        values = [(number - pad) & mixing.WORD for number, pad in zip(added, self._pads, strict=True)]
        found = list(zip(self._inputs, values, strict=True))
        self._base[:used] = mixing.random_words(used)
        # All of them: a kernel may have left a note where none was expected.
        self._values.copy_(self._base)
        self._inputs.clear()
        self._pads.clear()
        return found
