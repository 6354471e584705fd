"""Batch: calls queued behind a busy stream, each between two marks, so that the host's launch time is not counted."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

from kbench.harness.device import Device

LONGEST_BATCH = 64
"""Calls queued at a time; a driver's launch queue holds about a thousand entries."""
FIRST_HOLD_US = 200.0
LONGEST_HOLD_US = 30_000.0
"""A reference of hundreds of launches fills the launch queue while the stream is held; a longer hold only waits."""


@dataclasses.dataclass(slots=True)
class Slot:
    """One call to be timed."""

    label: str
    """Which kernel it belongs to."""
    round: int
    call: Callable[[], Any]
    before: Callable[[], None] | None = None
    """Queued ahead of the flush: refilling inputs, poisoning memory."""
    after: Callable[[Any], Any] | None = None
    """Queued behind the end mark: copies of the outputs, to be judged later."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One timed call."""

    label: str
    round: int
    time_us: float
    exposed: bool
    """The stream reached the call before the host had finished launching it, so host time may be inside."""
    kept: Any


class Sampler:
    """Times batches on a device and learns how long the stream must be held."""

    def __init__(self, device: Device) -> None:
        """Sample on a device."""
        self.device = device
        self.host_us: dict[str, float] = {}
        """Host time to queue one call, by label."""
        self.device_us: dict[str, float] = {}
        """Device time of one call with its flush, by label."""
        self.exposed = 0

    def forget(self, label: str) -> None:
        """Drop what was learnt about a kernel."""
        self.host_us.pop(label, None)
        self.device_us.pop(label, None)

    def run(self, slots: Sequence[Slot]) -> list[Sample]:
        """Time every slot in order."""
        done: list[Sample] = []
        for start in range(0, len(slots), LONGEST_BATCH):
            part = slots[start : start + LONGEST_BATCH]
            samples = self._run_part(part)
            if any(s.exposed for s in samples) and not any(s.kept is not None for s in samples):
                # The hold was too short; by now the host's pace is known.
                samples = self._run_part(part)
            self.exposed += sum(s.exposed for s in samples)
            done.extend(samples)
        return done

    def _hold_us(self, slots: Sequence[Slot]) -> float:
        host = [self.host_us.get(slot.label, FIRST_HOLD_US) for slot in slots]
        ahead, needed = 0.0, 0.0
        for slot, cost in zip(slots, host, strict=True):
            ahead += cost
            needed = max(needed, ahead)
            # While this call runs on the device the host gets that far ahead for free.
            ahead -= self.device_us.get(slot.label, 0.0)
        return min(1.3 * needed + 20.0, LONGEST_HOLD_US)

    def _run_part(self, slots: Sequence[Slot]) -> list[Sample]:
        device = self.device
        device.hold(self._hold_us(slots))
        queued = []
        for slot in slots:
            began = time.perf_counter()
            if slot.before is not None:
                slot.before()
            opened = device.mark()
            device.flush()
            start = device.mark()
            output = slot.call()
            end = device.mark()
            exposed = device.passed(start)
            kept = slot.after(output) if slot.after is not None else None
            del output
            queued.append((slot, opened, start, end, exposed, kept))
            self._learn(self.host_us, slot.label, 1e6 * (time.perf_counter() - began))
        device.synchronize()
        samples = []
        for slot, opened, start, end, exposed, kept in queued:
            samples.append(Sample(slot.label, slot.round, device.elapsed_us(start, end), exposed, kept))
            self._learn(self.device_us, slot.label, device.elapsed_us(opened, end))
        return samples

    @staticmethod
    def _learn(known: dict[str, float], label: str, value: float) -> None:
        known[label] = value if label not in known else 0.7 * known[label] + 0.3 * value
