"""Clocks that are held against each other: marks, stamps, the host's, and the null kernel, which calibrates them.

Marks are CUDA events, which machine code can move. Stamps are launches of the harness's own with tags that nobody can
make up (`device/kernels/stream.py`): one before the flush that precedes a call, one before its start mark and one after
its end mark. Together, the calls of a batch and what lies between them must fill the time that the host saw pass: work
that hides from one interval shows up in another, or in none, and then the host has waited for something that nobody
stamped. The null kernel is an empty kernel timed like any other: it shows how far apart the marks lie in this process.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kbench.harness.timing.interval import centre
from kbench.schemas.gpus import whole_gpu

if TYPE_CHECKING:
    from kbench.harness.timing.batch import Sample

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
        """Time of the null kernel in this process; None before the first sample."""
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


Places = tuple[int, int, int]
"""Of a call's stamps in their batch: before the flush, before the start mark, after the end mark."""
OFFSETS = 64
"""Empty kernels from which the offset between the clocks is learnt, before a process times its first kernel."""
SURE_US, SURE_SHARE = 0.25, 0.005
"""How far the time that counts may be from the stamps', either way: nothing is gained by moving marks further, neither
one's own nor the reference's. Of 3,090 honest measurements on an H200 the median call differed by -0.1 to 0.24 us below
20 us, and by -0.4 to 0.93 us above."""
CENTRE_US, CENTRE_SHARE, FEWEST = 1.0, 0.02, 3
"""The clocks disagree when the median call, of so many at least, differs by more than this: somebody moves marks. Of
few calls an honest median was 0.5 us off."""
UNSEEN_US, DRIFT_SHARE = 80.0, 2e-4
"""Time that may pass on the host in the median batch without a stamp for it: queueing the first stamp and noticing the
last take 23 us, and 75 us were seen. The second is how much faster the host's clock may run than the GPU's."""
LEAD_US, LEAD_SHARE = 8.0, 0.15
"""How much longer or shorter than usual a kernel's calls may be in coming, by both; of 3,090 honest measurements on an
H200 the worst needed 2.6 us and the share. A kernel leaves the cache in another state than an empty one. A kernel can
rewrite launches that are queued far behind it, those of stamps among them; but the time of its calls must be somewhere,
and the host sees the sum."""
TAIL = "the tail"


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """The times of one call by the stamps of its batch."""

    call_us: float | None = None
    """Time between its two stamps; None when stamps of its batch were tampered with, or there are none."""
    start_us: float | None = None
    """When it started, since the batch's first stamp."""
    lead_us: float | None = None
    """Time between the end of the call before, or the release of the stream, and its start."""
    flush_us: float | None = None
    """The last part of that, in which the cache is flushed."""
    tail_us: float | None = None
    """Time between the end of the batch's last call and the batch's."""
    tampered: bool = False
    unseen_us: float | None = None
    """How much longer the host saw the whole batch take."""


def witnesses(times_us: Sequence[float] | None, places: Sequence[Places], host_us: float) -> list[Witness]:
    """The times of each call by the stamps of their batch; none when a stamp is changed or out of order.

    Args:
        times_us: of all stamps of the batch: one before the stream is held, one after it was released, those of the
            calls, and one after the tail. None when one was changed.
        places: of each call's stamps.
        host_us: from before the first stamp was queued to the end of the batch, by the host's clock.
    """
    if times_us is None or any(later < earlier for earlier, later in itertools.pairwise(times_us)):
        # All of them: a batch whose first or last stamp is broken must not pass as one that nobody can check.
        return [Witness(tampered=True) for _ in places]
    unseen_us = host_us - (1.0 + DRIFT_SHARE) * (times_us[-1] - times_us[0])
    ends = [times_us[1], *(times_us[end] for _, _, end in places)]
    seen = [
        Witness(times_us[end] - times_us[start], times_us[start], times_us[start] - before,
                times_us[start] - times_us[opened], unseen_us=unseen_us)
        for (opened, start, end), before in zip(places, ends, strict=False)
    ]  # fmt: skip
    return [*seen[:-1], dataclasses.replace(seen[-1], tail_us=times_us[-1] - ends[-1])]


class StampOffset:
    """How much further apart stamps lie than marks around an empty kernel in this process.

    It is learnt from the first samples and fixed before any kernel is loaded, so that none can move it.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._seen_us: list[float] = []
        self.value_us: float | None = None

    def learn(self, stamped_us: float, marked_us: float) -> None:
        """Take in one call of the null kernel."""
        if self.value_us is None:
            self._seen_us.append(stamped_us - marked_us)
            if len(self._seen_us) == OFFSETS:
                self.fix()

    def fix(self) -> None:
        """Learn no more."""
        if self.value_us is None and len(self._seen_us) >= FEWEST:
            self.value_us = statistics.median(self._seen_us)


def counted_us(samples: Sequence[Sample]) -> float:
    """The typical time of some calls: that of the marks, as far as the stamps bear it out."""
    marked = centre([sample.time_us for sample in samples])
    stamps = [sample.stamped_us for sample in samples if sample.stamped_us is not None]
    if len(stamps) < len(samples):
        return marked
    stamped = centre(stamps)
    apart = SURE_US + SURE_SHARE * stamped
    return min(max(marked, stamped - apart), stamped + apart)


def gap_us(samples: Sequence[Sample]) -> float | None:
    """By how much the median call differs between the clocks, more by the stamps; None of too few calls."""
    gaps = [sample.stamped_us - sample.time_us for sample in samples if sample.stamped_us is not None]
    return statistics.median(gaps) if len(gaps) >= FEWEST else None


def disagreement(samples: Sequence[Sample]) -> str | None:
    """Why the times of some calls of one kernel cannot be believed; None when both clocks agree about them.

    Calls that the host was late for say nothing: it queued marks and stamps one by one while the device waited, so the
    stamps lie further apart by its own time. What counts of them is held to the stamps all the same.
    """
    samples = [sample for sample in samples if not sample.exposed]
    gap = gap_us(samples)
    if gap is None:
        return None
    calls = [(sample.time_us, sample.stamped_us) for sample in samples if sample.stamped_us is not None]
    marked, stamped = (statistics.median(times) for times in zip(*calls, strict=True))
    if abs(gap) <= CENTRE_US + CENTRE_SHARE * stamped:
        return None
    return f"two clocks disagree about the {samples[0].label}: {marked:.2f} us by events, {stamped:.2f} us by stamps"


def unseen_us(samples: Sequence[Sample]) -> float:
    """Time that passed on the host in the batch of the median call without a stamp for it."""
    times_us = [sample.unseen_us for sample in samples if sample.unseen_us is not None]
    return statistics.median(times_us) if times_us else 0.0


def leads_us(samples: Sequence[Sample], label: str, fewest: int = FEWEST) -> dict[tuple[str, str], float]:
    """Typical time from the end of a call to the start of the next, by whose the two are, where one is of a kernel.

    Calls that the host was late for say nothing: the device waited for it.

    Args:
        samples: in the order they were taken.
        label: the kernel's.
        fewest: calls that something is said of.
    """
    leads: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for sample in samples:
        if sample.good and sample.follows is not None and sample.lead_us is not None:
            leads[sample.follows, sample.label].append(sample.lead_us)
        if sample.good and sample.tail_us is not None:
            leads[sample.label, TAIL].append(sample.tail_us)
    return {pair: centre(times) for pair, times in leads.items() if label in pair and len(times) >= fewest}
