"""Batch: calls queued on a busy stream, each between two marks, so that the host's launch time is not counted.

Where a call lies in the launch queue adds up to a microsecond to the distance of its marks (docs/harness.md). Equal
commands for every call make that a pattern that lasts for a whole batch, so a random number of spare marks lies between
the calls and the rounds average over it. Calls with little queued after them look shorter, so a tail of marks closes
each batch, and samples for which the host was not well ahead are marked. On an H200 all calls of every other batch take
about half a microsecond longer than those of the batches between; rounds of short kernels therefore have two turns,
each in a batch of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kbench.harness.device.device import Device
from kbench.harness.timing.leftovers import Leftovers
from kbench.harness.timing.stamps import NULL_KERNEL, NullKernel, Places, StampOffset, Witness, witnesses
from kbench.schemas import InfrastructureError

if TYPE_CHECKING:
    from kbench.harness.bench.context import Buffers

LONGEST_BATCH = 64
"""Calls queued at a time; a driver's launch queue holds about a thousand entries."""
FIRST_HOLD_US = 200.0
"""Host time allowed for a call about which nothing is known yet."""
LONGEST_HOLD_US = 30_000.0
"""A reference of hundreds of launches fills the launch queue while the stream is held; a longer hold only waits."""
WAITING_PROBES = 2
"""Probes that must all say that a call waits for the device: a host that was delayed looks the same once."""
HOLD_MARGIN = 1.5
CALIBRATION_BATCH = 12
LEAD = 8
"""Calls that should be queued after a call when the stream reaches it; with fewer, its sample is thin."""
SPARE_MARKS = 4
"""Spare marks before a call: 0 to one fewer than this."""
TAIL_MARKS = 48
"""Marks after the last call of a batch, in place of further calls."""
NOTICED_S = 20e-6
"""A device that is waited for a shorter time than this may have been done before."""
WARM, USUAL_FLUSHES = 1 / 3, 64
"""A flush that takes less than this share of the usual time has not done its work: somebody has tampered with it. What
is usual, the first before calls of the null kernel say. How much the cache holds that must be written back matters
less."""


@dataclasses.dataclass(slots=True)
class Slot:
    """One call to be timed."""

    label: str
    """Which kernel it belongs to."""
    round: int
    call: Callable[[], Any]
    prepare: Callable[[], None] | None = None
    """Queued ahead of every call: takes away what earlier calls left."""
    before: Callable[[], None] | None = None
    """Queued ahead of a call that is judged, or of the reference: refills or inspects its inputs."""
    after: Callable[[Any], Any] | None = None
    """Queued after the end mark: copies of the outputs, to be judged later."""
    turn: int = 0
    """Part of its round; each turn has a batch to itself."""
    buffers: Buffers | None = None
    """The buffers it is called on, where what the call returns must be overwritten after it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One timed call."""

    label: str
    round: int
    time_us: float
    exposed: bool
    """The stream reached the call before the host had finished launching it, so host time may be inside."""
    kept: Any
    thin: bool = False
    """Too little was queued after the call when the stream reached it."""
    warm_us: float | None = None
    """Time of the flush before the call, where it was far too short."""
    stamped_us: float | None = None
    """Time of the call by the harness's own stamps, less what they take around an empty kernel."""
    tampered: bool = False
    """A stamp of its batch is not the one that was queued, or not in its place."""
    lead_us: float | None = None
    """By the stamps, time from the end of the call before to the start of this one."""
    follows: str | None = None
    """Which kernel the call before it is of, where nothing but preparing lies between the two."""
    tail_us: float | None = None
    """By the stamps, time from its end to that of its batch, where it is the last and nothing else lies between."""
    unseen_us: float | None = None
    """How much longer the host saw its batch take than the stamps did."""

    @property
    def good(self) -> bool:
        """Neither exposed nor thin."""
        return not (self.exposed or self.thin)


@dataclasses.dataclass(slots=True)
class Queued:
    """A call on the stream, with its marks."""

    slot: Slot
    opened: Any
    start: Any
    end: Any
    exposed: bool
    kept: Any
    stamps: Places | None
    queued_us: float
    """When its launches were queued, by the host's clock since that of its batch was started."""
    thin: bool = False


Watch = Callable[[int], None]
"""Called once in every round while the device works on it, with the round's number."""


class Sampler:
    """Times batches on a device and learns how long the stream must be held at most."""

    def __init__(self, device: Device) -> None:
        """Sample on a device."""
        self.device = device
        self.null_kernel = NullKernel(device.model)
        self.leftovers = Leftovers(device)
        self.spare_marks, self.tail_marks = SPARE_MARKS, TAIL_MARKS
        self.host_us: dict[tuple[str, bool], float] = {}
        """Host time to queue one call, by label and whether something is queued before it."""
        self.device_us: dict[str, float] = {}
        """Device time of one call with its flush, by label."""
        self.waits: dict[str, bool] = {}
        """Whether a kernel's call waits for the device by itself; found out when a sample of it is exposed."""
        self.tail_us = 0.0
        """Host time to queue a tail."""
        self.flushes_us: list[float] = []
        self.flush_us = 0.0
        """The usual time of a flush, once there were enough."""
        self.stamp_offset = StampOffset()
        self.stamped = False
        """Whether the device has stamps, once it was used."""
        self.leads_us: dict[object, dict[tuple[str, str], float]] = {}
        """Usual times between calls, by what is called and how it is prepared."""
        self._served: object = None
        self._rng = random.Random(0)

    def forget(self, label: str) -> None:
        """Drop what was learnt about a kernel."""
        for audited in (False, True):
            self.host_us.pop((label, audited), None)
        self.device_us.pop(label, None)
        self.waits.pop(label, None)

    def serve(self, problem: object, label: str) -> None:
        """Say whose calls a label stands for from now on; what was learnt about another problem's is dropped."""
        if problem != self._served:
            self._served = problem
            self.forget(label)

    def run(self, slots: Sequence[Slot], watch: Watch | None = None) -> list[Sample]:
        """Time every slot in order."""
        done: list[Sample] = []
        try:
            for part in itertools.chain.from_iterable(map(self._pieces, batches(slots))):
                done.extend(self._run_or_repeat(part, watch))
        finally:
            self.leftovers.clear()
        self.null_kernel.add(s.time_us for s in done if s.label == NULL_KERNEL and s.good)
        return done

    def _run_or_repeat(self, part: Sequence[Slot], watch: Watch | None) -> list[Sample]:
        samples = self._run_part(part, watch)
        if self._too_late(part, samples) and not any(s.kept is not None or s.tampered for s in samples):
            # The hold was too short; by now the host's pace is known.
            samples = self._run_part(part, watch)
        return samples

    def _pieces(self, part: Sequence[Slot]) -> Iterator[list[Slot]]:
        """A batch cut after each call that waits for the device: what follows needs the stream held again."""
        piece: list[Slot] = []
        for slot in part:
            piece.append(slot)
            if self.waits.get(slot.label, False):
                yield piece
                piece = []
        if piece:
            yield piece

    def _too_late(self, part: Sequence[Slot], samples: Sequence[Sample]) -> bool:
        """Whether holding the stream longer would hide a launch that was not hidden."""
        late = {sample.label: slot for slot, sample in zip(part, samples, strict=True) if sample.exposed}
        for label, slot in late.items():
            if label not in self.waits:
                self.waits[label] = all(self._waits(slot) for _ in range(WAITING_PROBES))
        return not all(self.waits[label] for label in late)

    def _waits(self, slot: Slot) -> bool:
        """Whether a call returns only when the device has reached it, so that no hold can hide its launch."""
        self.device.hold(LONGEST_HOLD_US)
        held = self.device.mark()
        if slot.prepare is not None:
            slot.prepare()
        output = slot.call()
        waited = self.device.is_gpu and self.device.passed(held)
        self.device.resume()
        self._leave(output, slot)
        self.device.synchronize()
        return waited

    def calibrate(self) -> None:
        """Take the samples of the null kernel that are still missing.

        Raises:
            InfrastructureError: the host is too slow to tell how far the clocks are apart.
        """
        places = range(self.null_kernel.missing)
        self.run([Slot(NULL_KERNEL, 0, self.device.nothing, turn=place // CALIBRATION_BATCH % 2) for place in places])
        self.stamp_offset.fix()
        if self.stamped and self.stamp_offset.value_us is None:
            raise InfrastructureError("the clocks cannot be compared: the host queues too slowly for samples to count")

    def _hold_us(self, slots: Sequence[Slot]) -> float:
        queued = list(itertools.accumulate(map(self._queueing_us, slots)))
        queued[-1] += self.tail_us
        reached, needed = 0.0, 0.0
        for at, slot in enumerate(slots):
            needed = max(needed, queued[min(at + LEAD, len(slots) - 1)] - reached)
            # While this call runs on the device the host gets that far ahead for free.
            reached += self.device_us.get(slot.label, 0.0)
        return min(HOLD_MARGIN * needed + 20.0, LONGEST_HOLD_US)

    def _queueing_us(self, slot: Slot) -> float:
        more = slot.before is not None
        if self.waits.get(slot.label, False):
            return FIRST_HOLD_US if more else 0.0
        # Where little is known, what comes before a call takes as long again as is allowed for an unknown one.
        known = self.host_us.get((slot.label, False), 0.0)
        return self.host_us.get((slot.label, more), known + FIRST_HOLD_US)

    def _run_part(self, slots: Sequence[Slot], watch: Watch | None) -> list[Sample]:
        """Queue a batch, then let the device work on it.

        The next batch is not queued meanwhile: marks lie further apart while the host queues, the null kernel's by
        0.3 us and a kernel's by 0.05.
        """
        device, hold_us = self.device, self._hold_us(slots)
        # The first stamp is written as soon as it is queued: nothing may be ahead of it.
        device.synchronize()
        began = time.perf_counter()
        self.stamped = device.stamp(first=True) is not None
        device.hold(hold_us)
        device.stamp()
        queued: list[Queued] = []
        for slot in slots:
            queued.append(self._queue(slot, began))
            if len(queued) > LEAD and not self.stamped:
                queued[-1 - LEAD].thin = device.passed(queued[-1 - LEAD].start)
        closing = time.perf_counter()
        for _ in range(self.tail_marks):
            device.mark()
        closed = time.perf_counter()
        self.tail_us = 1e6 * (closed - closing)
        for entry in queued[-LEAD:] if not self.stamped else ():
            entry.thin = device.passed(entry.start)
        device.stamp()
        device.resume()
        host_us = 1e6 * (self._finish(queued, watch) - began)
        places = [entry.stamps for entry in queued if entry.stamps is not None]
        witnessed = witnesses(device.stamps_us(), places, host_us) if places else [Witness()] * len(queued)
        mark_late(queued, witnessed, 1e6 * (closed - began))
        calls = zip(queued, witnessed, [None, *queued[:-1]], strict=True)
        return [self._sample(entry, witness, previous) for entry, witness, previous in calls]

    def _queue(self, slot: Slot, batch_began: float) -> Queued:
        device = self.device
        began = time.perf_counter()
        for _ in range(self._rng.randrange(self.spare_marks) if self.spare_marks else 0):
            device.mark()
        for queue in (slot.prepare, slot.before):
            if queue is not None:
                queue()
        opened, opening = device.mark(), device.stamp()
        device.flush()
        before, start = device.stamp(), device.mark()
        output = slot.call()
        end, after = device.mark(), device.stamp()
        exposed = after is None and device.passed(start)
        queued_us = 1e6 * (time.perf_counter() - batch_began)
        kept = slot.after(output) if slot.after is not None else None
        self._leave(output, slot)
        self._learn_host((slot.label, slot.before is not None), 1e6 * (time.perf_counter() - began))
        stamps = None if opening is None or before is None or after is None else (opening, before, after)
        return Queued(slot, opened, start, end, exposed, kept, stamps, queued_us)

    def _leave(self, output: Any, slot: Slot) -> None:
        if slot.buffers is not None:
            self.leftovers.take(output, slot.buffers)

    def _finish(self, queued: Sequence[Queued], watch: Watch | None) -> float:
        """Wait for a batch; the latest time on the host's clock at which it certainly was not done.

        Watching takes a while, once for every round. A device that need not be waited for afterwards may have been done
        since the last round that had to be waited for began, or since the first was watched.
        """
        watching = None
        if watch is not None:
            for number, entries in itertools.groupby(queued, key=lambda entry: entry.slot.round):
                first = next(entries)
                busy = False
                while self.device.is_gpu and not self.device.passed(first.start):
                    busy = True
                if busy or watching is None:
                    watching = time.perf_counter()
                watch(number)
        waiting = time.perf_counter()
        self.device.synchronize()
        ended = time.perf_counter()
        return ended if watching is None or ended - waiting > NOTICED_S else watching

    def _sample(self, entry: Queued, witness: Witness, previous: Queued | None) -> Sample:
        device, slot = self.device, entry.slot
        spent = device.elapsed_us(entry.opened, entry.end)
        known = self.device_us.get(slot.label, spent)
        self.device_us[slot.label] = 0.7 * known + 0.3 * spent
        taken = device.elapsed_us(entry.start, entry.end)
        flushed = min(spent - taken, math.inf if witness.flush_us is None else witness.flush_us)
        warm_us = flushed if device.is_gpu and flushed < WARM * self.flush_us else None
        offset_us, call_us = self.stamp_offset.value_us, witness.call_us
        sample = Sample(
            slot.label, slot.round, taken, entry.exposed, entry.kept, entry.thin, warm_us,
            stamped_us=None if call_us is None or offset_us is None else call_us - offset_us,
            tampered=witness.tampered, lead_us=witness.lead_us, unseen_us=witness.unseen_us,
            follows=previous.slot.label if previous and not (previous.slot.after or slot.before) else None,
            tail_us=None if slot.after else witness.tail_us,
        )  # fmt: skip
        if slot.label == NULL_KERNEL and sample.good and call_us is not None:
            self.stamp_offset.learn(call_us, taken)
        if slot.label == NULL_KERNEL and sample.good and len(self.flushes_us) < USUAL_FLUSHES:
            self.flushes_us.append(flushed)
            enough = len(self.flushes_us) == USUAL_FLUSHES
            self.flush_us = statistics.quantiles(self.flushes_us, n=4)[0] if enough else 0.0
        return sample

    def _learn_host(self, key: tuple[str, bool], value: float) -> None:
        known = self.host_us.get(key, value)
        # A slower host is taken into account at once: too short a hold spoils samples, too long a hold at most waits.
        weight = 0.5 if value > known else 0.3
        self.host_us[key] = known + weight * (value - known)


def mark_late(queued: Sequence[Queued], witnessed: Sequence[Witness], closed_us: float) -> None:
    """Say of the calls of a batch which the stream reached before they, or enough after them, were queued.

    By the stamps, where there are any: a kernel that writes to the driver's page could choose by the marks which of its
    calls count.

    Args:
        queued: the calls.
        witnessed: what the stamps say about them.
        closed_us: when the tail was queued.
    """
    ahead_us = [*(entry.queued_us for entry in queued[LEAD:]), *[closed_us] * LEAD]
    for entry, witness, followed_us in zip(queued, witnessed, ahead_us, strict=False):
        if witness.start_us is not None:
            entry.exposed, entry.thin = entry.queued_us > witness.start_us, followed_us > witness.start_us


def batches(slots: Sequence[Slot]) -> Iterator[list[Slot]]:
    """Whole rounds, as many as fit into a batch; a round is cut between its turns, and where it is too long."""
    part: list[Slot] = []
    for (_, turn), together in itertools.groupby(slots, key=lambda slot: (slot.round, slot.turn)):
        group = list(together)
        if part and (len(part) + len(group) > LONGEST_BATCH or part[-1].turn != turn):
            yield part
            part = []
        part += group
        while len(part) > LONGEST_BATCH:
            yield part[:LONGEST_BATCH]
            part = part[LONGEST_BATCH:]
    if part:
        yield part
