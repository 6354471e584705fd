"""Null kernel: an empty kernel timed like any other, which shows how far apart the marks lie in this process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from kbench.harness.timing.interval import centre
from kbench.schemas.gpus import whole_gpu

NULL_KERNEL = "null kernel"
NOMINAL_US: Mapping[str, float] = {"NVIDIA H200": 3.27}
"""Its usual time by GPU name: figures of that GPU are stated relative to it. Without one nothing is corrected.

The H200's is 0.16 us above what five processes showed (docs/evidence/harness), so that figures agree with those that
were recorded before there was a null kernel, in longer batches."""
CALIBRATION = 192
"""Samples a process takes before its first timing; one varies by 0.4 us, so their centre is known to 0.03 us."""
MOST_SHIFT_US = 0.5
"""Processes differ by less than 0.3 us; more is not the marks, and a kernel that slows it down gains no more."""
WINDOW = 512
"""Latest samples that count."""


class NullKernel:
    """The null kernel's samples in one process on one GPU."""

    def __init__(self, model: str) -> None:
        """Start without samples on a device of this name; a partition is held to its GPU's usual time."""
        self.nominal_us = NOMINAL_US.get(model, NOMINAL_US.get(whole_gpu(model)))
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def add(self, times_us: Iterable[float]) -> None:
        """Take in samples."""
        self._recent.extend(times_us)

    @property
    def missing(self) -> int:
        """Samples that should be taken before it is used."""
        return max(0, CALIBRATION - len(self._recent))

    @property
    def time_us(self) -> float | None:
        """What the null kernel takes in this process; None before the first sample."""
        return centre(self._recent) if self._recent else None

    @property
    def shift_us(self) -> float | None:
        """How much longer than usual it takes here, within bounds; None where its usual time is not known."""
        if self.nominal_us is None or self.time_us is None:
            return None
        return min(max(self.time_us - self.nominal_us, -MOST_SHIFT_US), MOST_SHIFT_US)


def corrected(time_us: float, shift_us: float | None) -> float:
    """A time less what this process adds to every call, but never less than half of it."""
    return time_us if shift_us is None else max(time_us - shift_us, time_us / 2.0)
