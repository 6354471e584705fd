"""Stamps against marks: two clocks that a kernel would have to forge together, and the host's as a third.

Marks are CUDA events, which machine code can move. Stamps are launches of the harness's own with tags that nobody can
make up (`device/kernels/stamp.py`), one before the start mark of a call and one after its end mark. Together, the calls
of a batch and what lies between them must fill the time that the host saw pass: work that hides from one interval
shows up in another, or in none, and then the host has waited for something that nobody stamped.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kbench.harness.timing.batch import Sample

OFFSETS = 64
"""Empty kernels from which the offset between the clocks is learnt, before a process times its first kernel."""
CENTRE_US, CENTRE_SHARE, FEWEST = 1.0, 0.01, 3
"""The clocks disagree when the median call, of so many at least, differs by more than this. Of 578 honest kernels and
their references on an H200 the median differed by -0.3 to 0.9 us, by at most 0.2 us below 20 us."""
CALL_US, CALL_SHARE, ODD_CALLS = 4.0, 0.02, 0.1
"""They also disagree when this share of the calls, and FEWEST of them, differ by more than the first two allow. Single
calls may: the device can be interrupted between a mark and its stamp (8 us were seen)."""
UNSEEN_US = 120.0
"""Time that may pass on the host in every batch without a stamp for it: releasing the stream and noticing that it is
done take 8 us in the median. The least of all batches counts, because the host may always be late."""
LEAD_US, LEAD_SHARE = 20.0, 1.0
"""How much longer than usual a kernel's calls may be in coming, by both. A kernel can rewrite launches that are queued
far behind it, those of stamps among them; but the time of its calls must be somewhere, and the host sees the sum."""


@dataclasses.dataclass(frozen=True, slots=True)
class Witness:
    """What the stamps of a batch say about one of its calls."""

    call_us: float | None
    """Time between its two stamps; None when stamps of its batch were tampered with, or there are none."""
    lead_us: float | None
    """Time between the end of the call before, or the release of the stream, and its start."""
    tampered: bool = False
    unseen_us: float | None = None
    """How much longer the host saw the whole batch take."""


UNSTAMPED = Witness(None, None)


def witnesses(
    times_us: Sequence[float | None], places: Sequence[tuple[int, int]], host_us: float | None
) -> list[Witness]:
    """What the stamps of a batch say about each call; nothing when one of them is missing, changed or out of order.

    Args:
        times_us: of all stamps of the batch, the first after the stream was released and the last after its tail.
        places: of each call's two stamps.
        host_us: between the release and the end, by the host's clock.
    """
    known = [time_us for time_us in times_us if time_us is not None]
    if len(known) < len(times_us) or any(later < earlier for earlier, later in itertools.pairwise(known)):
        # All of them: a batch whose first or last stamp is broken must not pass as one that nobody can check.
        return [Witness(None, None, tampered=True) for _ in places]
    unseen_us = None if host_us is None else host_us - (known[-1] - known[0])
    ends = [known[0], *(known[end] for _, end in places)]
    return [
        Witness(known[end] - known[start], known[start] - before, unseen_us=unseen_us)
        for (start, end), before in zip(places, ends, strict=False)
    ]


class StampOffset:
    """How much further apart stamps lie than marks around an empty kernel in this process.

    It is learnt from the first samples and fixed then, so that no kernel can move it.
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
                self.value_us = statistics.median(self._seen_us)


def disagreement(samples: Sequence[Sample]) -> str | None:
    """Why the times of some calls of one kernel cannot be believed; None when both clocks agree about them."""
    calls = [(sample.time_us, sample.stamped_us) for sample in samples if sample.stamped_us is not None]
    if len(calls) < FEWEST:
        return None
    marked, stamped = (statistics.median(times) for times in zip(*calls, strict=True))
    gap = abs(statistics.median(by_stamps - by_marks for by_marks, by_stamps in calls))
    odd = sum(abs(by_stamps - by_marks) > CALL_US + CALL_SHARE * by_marks for by_marks, by_stamps in calls)
    if gap <= CENTRE_US + CENTRE_SHARE * marked and odd < max(FEWEST, ODD_CALLS * len(calls)):
        return None
    return f"two clocks disagree about the {samples[0].label}: {marked:.2f} us by events, {stamped:.2f} us by stamps"


def unseen_us(samples: Sequence[Sample]) -> float:
    """The least time that passed on the host in a batch of these without a stamp for it."""
    return min((sample.unseen_us for sample in samples if sample.unseen_us is not None), default=0.0)


def leads_us(samples: Sequence[Sample], label: str) -> dict[str, float]:
    """Median time from the end of a call to the start of the next, where that is of a kernel; by whose the first is."""
    known: defaultdict[str, list[float]] = defaultdict(list)
    for sample in samples:
        if sample.label == label and sample.follows is not None and sample.lead_us is not None:
            known[sample.follows].append(sample.lead_us)
    return {follows: statistics.median(times) for follows, times in known.items() if len(times) >= FEWEST}
