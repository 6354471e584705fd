"""Two clocks per call, and the host's: what they agree on is believed."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kbench.harness.audit.audit import CallTimes
from kbench.harness.audit.reaudit import Reaudit
from kbench.harness.device.kernels import mixing
from kbench.harness.timing.batch import Sample, Sampler, Slot
from kbench.harness.timing.null_kernel import NULL_KERNEL
from kbench.harness.timing.rounds import Candidate
from kbench.harness.timing.stamps import OFFSETS, UNSEEN_US, StampOffset, disagreement, leads_us, unseen_us, witnesses
from kbench.harness.verify import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

HONEST = Sample("k", 0, 10.0, False, None, stamped_us=10.1)


def test_stamps_tell_the_time_of_each_call_and_of_what_precedes_it() -> None:
    times_us = [0.0, 40.0, 55.0, 90.0, 100.0, 140.0]
    first, second = witnesses(times_us, [(1, 2), (3, 4)], 150.0)
    assert (first.call_us, first.lead_us, first.tampered, first.unseen_us) == (15.0, 40.0, False, 10.0)
    assert (second.call_us, second.lead_us) == (10.0, 35.0)


@pytest.mark.parametrize(
    "times_us",
    [
        [0.0, 40.0, None, 90.0, 100.0, 140.0],
        [None, 40.0, 55.0, 90.0, 100.0, 140.0],
        [0.0, 40.0, 55.0, 90.0, 100.0, None],
        [0.0, 40.0, 55.0, 50.0, 100.0, 140.0],
    ],
    ids=["of a call", "first", "last", "out of order"],
)
def test_a_stamp_that_is_wrong_or_out_of_order_makes_its_whole_batch_tampered(times_us: list[float | None]) -> None:
    told = witnesses(times_us, [(1, 2), (3, 4)], 150.0)
    assert [(one.tampered, one.call_us, one.unseen_us) for one in told] == [(True, None, None)] * 2


def test_the_offset_between_the_clocks_is_learnt_once_so_that_no_kernel_can_move_it() -> None:
    offset = StampOffset()
    for _ in range(OFFSETS):
        assert offset.value_us is None
        offset.learn(7.0, 3.0)
    offset.learn(500.0, 3.0)
    assert offset.value_us == 4.0


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([HONEST] * 9, None),
        ([dataclasses.replace(HONEST, stamped_us=None)] * 9, None),
        ([dataclasses.replace(HONEST, stamped_us=18.0), *[HONEST] * 40], None),
        ([dataclasses.replace(HONEST, time_us=20.0, stamped_us=185.0)] * 9, "20.00 us by events, 185.00 us by stamps"),
        ([dataclasses.replace(HONEST, time_us=9.0)] * 9, "9.00 us by events, 10.10 us by stamps"),
        ([*[dataclasses.replace(HONEST, stamped_us=30.0)] * 4, *[HONEST] * 30], "two clocks disagree about the k"),
        ([dataclasses.replace(HONEST, label="anchor", time_us=90.0)] * 9, "about the anchor"),
        ([dataclasses.replace(HONEST, time_us=90.0)] * 2, None),
    ],
)
def test_times_that_two_clocks_do_not_agree_on_are_refused_with_both_figures(
    samples: Sequence[Sample], reason: str | None
) -> None:
    found = disagreement(samples)
    assert (found is None) if reason is None else (reason in (found or ""))


def test_the_host_counts_as_late_unless_every_batch_hides_something() -> None:
    hiding = dataclasses.replace(HONEST, unseen_us=10 * UNSEEN_US)
    assert unseen_us([hiding, hiding]) > UNSEEN_US
    assert unseen_us([hiding, dataclasses.replace(HONEST, unseen_us=8.0)]) < UNSEEN_US
    assert unseen_us([HONEST]) == 0.0


class Stamping:
    """A device whose stamps are honest and whose marks a kernel can move."""

    is_gpu, model = True, "a GPU"

    def __init__(self) -> None:
        """Begin at time zero."""
        self.now_us, self.marks, self.stamped = 0.0, [], []  # type: tuple[float, list[list[float]], list[float]]

    def stamp(self, *, first: bool = False) -> int:
        self.stamped = [] if first else self.stamped
        self.now_us += 1.0
        self.stamped.append(self.now_us)
        return len(self.stamped) - 1

    def stamps_us(self) -> list[float]:
        return [at - self.stamped[0] for at in self.stamped]

    def mark(self) -> list[float]:
        self.now_us += 1.0
        self.marks.append([self.now_us])
        return self.marks[-1]

    def forge(self) -> None:
        self.now_us += 150.0
        self.marks[-1][0] += 140.0

    def flush(self) -> None:
        self.now_us += 30.0

    def nothing(self) -> None:
        self.now_us += 2.0

    def elapsed_us(self, start: list[float], end: list[float]) -> float:
        return end[0] - start[0]

    def passed(self, mark: Any) -> bool:
        return False

    def idle(self, *args: Any) -> None:
        return None

    hold = resume = synchronize = idle


def test_a_kernel_that_moves_its_start_mark_is_found_out() -> None:
    device = Stamping()
    sampler = Sampler(device)  # type: ignore[arg-type]
    sampler._rng = random.Random(3)
    sampler.run([Slot(NULL_KERNEL, 0, device.nothing) for _ in range(OFFSETS)])
    honest = sampler.run([Slot("k", 0, lambda: setattr(device, "now_us", device.now_us + 150.0)) for _ in range(6)])
    forged = sampler.run([Slot("k", 0, device.forge) for _ in range(6)])
    assert disagreement(honest) is None
    assert max(s.time_us for s in forged) < 20.0, "by the marks alone it would be believed"
    assert "by stamps" in str(disagreement(forged))


@pytest.mark.parametrize(("forged", "refused"), [(0, False), (2, True)])
def test_few_forged_calls_that_move_the_mean_are_found_out(forged: int, refused: bool) -> None:
    honest = [Sample("k", number, 20_000.0, False, None, stamped_us=20_000.4) for number in range(5)]
    calls = [dataclasses.replace(s, time_us=100.0) if s.round < forged else s for s in honest]
    assert disagreement(calls) is None, "too few of them are odd"
    verdict, times = Verdict(), defaultdict(CallTimes, {"k": CallTimes(samples=calls)})
    auditor: Any = SimpleNamespace(times=times, verdict=verdict, name=lambda label: "")
    Reaudit(auditor, Candidate("k", lambda stage: None), Sampler(Stamping()), random.Random(0)).refuse_another_time()  # type: ignore[arg-type]
    assert verdict.ok is not refused
    assert not refused or "us by stamps" in str(verdict.reason)


def test_how_long_calls_are_in_coming_is_told_by_what_they_follow() -> None:
    after_own = dataclasses.replace(HONEST, follows="k", lead_us=50.0)
    after_anchor = dataclasses.replace(HONEST, follows="anchor", lead_us=90.0)
    hooked = dataclasses.replace(HONEST, lead_us=900.0)
    known = [*[after_own] * 3, *[after_anchor] * 3, *[hooked] * 9]
    assert leads_us(known, "k") == {"k": 50.0, "anchor": 90.0}
    assert leads_us(known[1:], "k") == {"anchor": 90.0}, "two are too few to speak of"
    assert leads_us(known, "other") == {}


def test_calls_with_something_to_judge_between_them_do_not_follow_each_other() -> None:
    device = Stamping()
    sampler = Sampler(device)  # type: ignore[arg-type]
    sampler.tail_marks = sampler.spare_marks = 0
    plain = Slot("k", 0, device.nothing)
    judged = Slot("k", 0, device.nothing, before=device.idle, after=device.idle)
    samples = sampler.run([plain, plain, judged, plain, plain])
    assert [s.follows for s in samples] == [None, "k", None, None, "k"]
    assert samples[1].lead_us == samples[4].lead_us


def test_a_tag_of_many_stamps_is_the_tag_of_each() -> None:
    times, places = np.array([5, 2**63 + 1], dtype=np.uint64), np.array([0, 1], dtype=np.uint64)
    tags = mixing.pad(7, times, places, mixing.STAMPS)
    assert [int(tag) for tag in tags] == [
        mixing.pad(7, int(t), int(p), mixing.STAMPS) for t, p in zip(times, places, strict=True)
    ]
    assert tags[0] != mixing.pad(7, 6, 0, mixing.STAMPS)
    assert tags[0] != mixing.pad(8, 5, 0, mixing.STAMPS)
    assert tags[0] != mixing.pad(7, 5, 1, mixing.STAMPS)


@pytest.mark.gpu
def test_stamps_on_a_gpu_agree_with_events_and_show_when_they_were_changed() -> None:
    import torch

    from kbench.harness.device.device import CudaDevice

    device = CudaDevice(0)
    device.compile()
    assert device._stamps is not None
    device.hold(2_000.0)
    device.stamp(first=True)
    device.stamp()
    start = device.mark()
    torch.cuda._sleep(1_000_000)
    end = device.mark()
    device.stamp()
    device.resume()
    opened, before, after = device.stamps_us()
    assert opened == 0.0
    assert before is not None
    assert after is not None
    assert after - before == pytest.approx(device.elapsed_us(start, end), abs=12.0)
    device._stamps._table[1, 0] += 1
    assert [at is None for at in device.stamps_us()] == [False, True, False]
    device.stamp(first=True)
    assert None not in device.stamps_us()
