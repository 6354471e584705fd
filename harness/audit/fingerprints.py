"""Fingerprints: what each call of a kernel left in its outputs, as one number, so that none need be kept."""

from __future__ import annotations

import secrets
import struct
from typing import TYPE_CHECKING

import numpy as np

from kbench.harness.device.kernels import mixing

if TYPE_CHECKING:
    from kbench.harness.bench.reference_inputs import Drawing
    from kbench.harness.device.device import CudaDevice

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
        self._inputs: list[Drawing | None] = []
        self._nonces: list[int] = []
        """What else is added, as a pad: a kernel that sees the numbers of before and after could learn what its own
        outputs add."""

    def expect(self, inputs: Drawing | None) -> bytes:
        """What says where the number of a call on some inputs goes; of None, one that nobody asks for."""
        at = len(self._inputs)
        assert at < MOST_CALLS, "the fingerprints of calls must be taken now and then"
        self._inputs.append(inputs)
        self._nonces.append(secrets.randbits(64))
        return WHERE.pack(self._nonces[-1], int(self._values.data_ptr()) + 8 * at)

    def take(self) -> list[tuple[Drawing, int]]:
        """Those of the calls since the last time, in order; waits for the device."""
        used = len(self._inputs)
        places = np.arange(used, dtype=np.uint64) * 8 + self._values.data_ptr()
        pads = mixing.pad(np.array(self._nonces, dtype=np.uint64), places, mixing.WORD)
        values = (self._values[:used].cpu() - self._base[:used]).numpy().view(np.uint64) - pads
        taken = zip(self._inputs, values.tolist(), strict=True)
        fingerprints = [(inputs, value) for inputs, value in taken if inputs is not None]
        self._base[:used] = mixing.random_words(used)
        # All of them: a kernel may have left a note where none was expected.
        self._values.copy_(self._base)
        self._inputs.clear()
        self._nonces.clear()
        return fingerprints
