"""Two clocks per call, and the host's: what they agree on is believed."""

import dataclasses
import random
from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.harness.audit.audit import CallTimes
from kbench.harness.audit.reaudit import Reaudit
from kbench.harness.device.device import CudaDevice, Device
from kbench.harness.device.kernels import stream
from kbench.harness.timing.batch import Sample, Sampler, Slot
from kbench.harness.timing.rounds import Candidate, by_round
from kbench.harness.timing.stamps import (
    DRIFT_SHARE,
    NULL_KERNEL,
    OFFSETS,
    TAIL,
    UNSEEN_US,
    StampOffset,
    Witness,
    disagreement,
    leads_us,
    unseen_us,
    witnesses,
)
from kbench.harness.verify import Verdict

HONEST = Sample("k", 0, 10.0, False, None, stamped_us=10.1)


TIMES_US, PLACES = [0.0, 10.0, 40.0, 50.0, 65.0, 90.0, 100.0, 110.0, 140.0], [(2, 3, 4), (5, 6, 7)]


def test_stamps_tell_the_time_of_each_call_and_of_what_lies_around_it() -> None:
    first, second = witnesses(TIMES_US, PLACES, 150.0)
    assert (first.call_us, first.start_us, first.lead_us, first.flush_us) == (15.0, 50.0, 40.0, 10.0)
    assert (second.call_us, second.lead_us, second.flush_us, second.tail_us) == (10.0, 35.0, 10.0, 30.0)
    assert first.tail_us is None
    assert first.unseen_us == pytest.approx(10.0 - 140.0 * DRIFT_SHARE)


@pytest.mark.parametrize("times_us", [None, [*TIMES_US[:4], TIMES_US[5], TIMES_US[4], *TIMES_US[6:]]])
def test_a_stamp_changed_or_out_of_order_makes_its_whole_batch_tampered(times_us: list[float] | None) -> None:
    assert witnesses(times_us, PLACES, 150.0) == [Witness(tampered=True)] * 2


def test_the_offset_between_the_clocks_is_learnt_once_so_that_no_kernel_can_move_it() -> None:
    offset = StampOffset()
    for _ in range(OFFSETS):
        assert offset.value_us is None
        offset.learn(7.0, 3.0)
    offset.learn(500.0, 3.0)
    offset.fix()
    assert offset.value_us == 4.0


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        ([HONEST] * 9, None),
        ([dataclasses.replace(HONEST, stamped_us=None)] * 9, None),
        ([dataclasses.replace(HONEST, stamped_us=18.0), *[HONEST] * 40], None),
        ([dataclasses.replace(HONEST, time_us=20.0, stamped_us=185.0)] * 9, "20.00 us by events, 185.00 us by stamps"),
        ([dataclasses.replace(HONEST, time_us=8.8)] * 9, "8.80 us by events, 10.10 us by stamps"),
        ([dataclasses.replace(HONEST, time_us=9.5)] * 9, None),
        ([dataclasses.replace(HONEST, label="anchor", time_us=90.0)] * 9, "about the anchor"),
        ([dataclasses.replace(HONEST, time_us=90.0)] * 2, None),
        ([dataclasses.replace(HONEST, time_us=8.0, exposed=True)] * 9, None),
        ([dataclasses.replace(HONEST, time_us=8.0, exposed=late) for late in (True, False) * 4], "8.00 us by events"),
    ],
)
def test_times_that_two_clocks_do_not_agree_on_are_refused_with_both_figures(
    samples: Sequence[Sample], reason: str | None
) -> None:
    found = disagreement(samples)
    assert (found is None) if reason is None else (reason in (found or ""))


def test_the_host_is_believed_when_it_waits_in_most_batches() -> None:
    hiding = dataclasses.replace(HONEST, unseen_us=10 * UNSEEN_US)
    prompt = dataclasses.replace(HONEST, unseen_us=8.0)
    assert unseen_us([hiding, hiding, prompt]) > UNSEEN_US
    assert unseen_us([hiding, prompt, prompt]) < UNSEEN_US
    assert unseen_us([HONEST]) == 0.0


class Stamping(Device):
    """A device whose stamps are honest and whose marks a kernel can move."""

    is_gpu, model, genuine = True, "a GPU", True

    def __init__(self) -> None:
        """Begin at time zero."""
        self.now_us, self.marks, self.stamped = 0.0, [], []  # type: tuple[float, list[list[float]], list[float]]

    def stamp(self, *, first: bool = False) -> int:
        self.stamped = [] if first else self.stamped
        self.now_us += 1.0
        self.stamped.append(self.now_us)
        return len(self.stamped) - 1

    def stamps_us(self) -> list[float] | None:
        return [at - self.stamped[0] for at in self.stamped] if self.genuine else None

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

    def hold(self, microseconds: float) -> None:
        self.now_us += 1e6


def test_a_kernel_that_moves_its_start_mark_is_found_out() -> None:
    device = Stamping()
    sampler = Sampler(device)
    sampler._rng = random.Random(3)
    sampler.run([Slot(NULL_KERNEL, 0, device.nothing) for _ in range(OFFSETS)])
    honest = sampler.run([Slot("k", 0, lambda: setattr(device, "now_us", device.now_us + 150.0)) for _ in range(6)])
    forged = sampler.run([Slot("k", 0, device.forge) for _ in range(6)])
    assert disagreement(honest) is None
    assert max(s.time_us for s in forged) < 20.0, "by the marks alone it would be believed"
    assert "by stamps" in str(disagreement(forged))


@pytest.mark.parametrize(
    ("marked_us", "counted"), [(20_000.0, 20_000.0), (100.0, 19_900.15), (1e9, 20_100.65), (-5.0, 19_900.15)]
)
def test_marks_that_are_moved_change_the_time_that_counts_by_little(marked_us: float, counted: float) -> None:
    calls = [Sample("k", 0, marked_us, False, None, stamped_us=20_000.4) for _ in range(2)]
    assert by_round(calls, "k")[0] == pytest.approx(counted, abs=0.01)
    without = [dataclasses.replace(call, stamped_us=None) for call in calls]
    assert by_round(without, "k")[0] == marked_us


def test_how_long_calls_are_in_coming_is_told_by_what_they_follow() -> None:
    after_own = dataclasses.replace(HONEST, follows="k", lead_us=50.0)
    after_anchor = dataclasses.replace(HONEST, follows="anchor", lead_us=90.0)
    before_anchor = dataclasses.replace(HONEST, label="anchor", follows="k", lead_us=70.0)
    hooked, last = dataclasses.replace(HONEST, lead_us=900.0), dataclasses.replace(HONEST, tail_us=60.0)
    late = dataclasses.replace(after_own, lead_us=5_000.0, exposed=True)
    known = [*[after_own, after_anchor, before_anchor, last, late] * 3, *[hooked] * 9]
    assert leads_us(known, "k") == {("k", "k"): 50.0, ("anchor", "k"): 90.0, ("k", "anchor"): 70.0, ("k", TAIL): 60.0}
    assert leads_us(known[1:], "k").keys() == leads_us(known, "k").keys() - {("k", "k")}, "two are too few to speak of"
    assert leads_us(known, "other") == {}


def test_calls_with_something_to_judge_between_them_do_not_follow_each_other() -> None:
    device = Stamping()
    sampler = Sampler(device)
    sampler.tail_marks = sampler.spare_marks = 0
    plain = Slot("k", 0, device.nothing)
    judged = Slot("k", 0, device.nothing, before=device.resume, after=lambda output: None)
    samples = sampler.run([plain, plain, judged, plain, plain])
    assert [s.follows for s in samples] == [None, "k", None, None, "k"]
    assert samples[1].lead_us == samples[4].lead_us
    assert [s.tail_us is None for s in samples] == [True] * 4 + [False]
    assert sampler.run([plain, judged])[-1].tail_us is None


def test_stamps_that_were_changed_make_all_samples_of_a_batch_tampered() -> None:
    device = Stamping()
    device.genuine = False
    assert all(sample.tampered for sample in Sampler(device).run([Slot("k", 0, device.nothing)] * 3))  # type: ignore[arg-type]


class Displacing(Stamping):
    """A device on which some time passes between calls once a kernel ran."""

    def __init__(self, lead_us: float) -> None:
        """Have so much pass before each flush that follows a call of the kernel."""
        super().__init__()
        self.lead_us, self.ran = lead_us, False

    def call(self, set_number: int) -> None:
        self.now_us += 20.0
        self.ran = True

    def flush(self) -> None:
        self.now_us += 60.0 + (self.lead_us if self.ran else 0.0)
        self.ran = False


@pytest.mark.parametrize(
    ("lead_us", "reason"),
    [(0.0, None), (8.0, None), (60.0, "time passes where none is measured"), (-59.0, "its calls are not prepared")],
)
def test_time_around_calls_is_held_against_that_around_an_empty_kernel(lead_us: float, reason: str | None) -> None:
    device, verdict = Displacing(lead_us), Verdict()
    sampler = Sampler(device)
    where = {"definition": SimpleNamespace(id="p"), "size": SimpleNamespace(name="small")}
    context = SimpleNamespace(device=device, sets=[None, None], **where)
    candidate = Candidate("k", device.call, prepare=lambda set_number: None, idle=lambda set_number: device.nothing())
    slots = [Slot("k", 0, lambda: device.call(0), prepare=device.resume) for _ in range(6)]
    times = defaultdict(CallTimes, {"k": CallTimes(samples=sampler.run(slots))})
    auditor: Any = SimpleNamespace(times=times, verdict=verdict, name=lambda label: "", context=context)
    Reaudit(auditor, candidate, sampler, random.Random(0)).refuse_displaced_work()
    assert (verdict.reason is None) if reason is None else (reason in str(verdict.reason))


def siphash(key: tuple[int, int], blocks: Sequence[int]) -> int:
    """SipHash-2-4 of words, the last of which ends with the length."""
    state = [word ^ key[at % 2] for at, word in enumerate(stream.INITIAL)]

    def mix(rounds: int) -> None:
        a, b, c, d = state
        for turns in ((13, 16), (17, 21)) * rounds:
            a, c = (a + b) % 2**64, (c + d) % 2**64
            b, d = (((w << by | w >> 64 - by) % 2**64) ^ x for w, by, x in ((b, turns[0], a), (d, turns[1], c)))
            # The second half of a round does the same with a and c in each other's place.
            a, c = c, (a << 32 | a >> 32) % 2**64
        state[:] = a, b, c, d

    for block in blocks:
        state[3] ^= block
        mix(2)
        state[0] ^= block
    state[2] ^= 0xFF
    mix(4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def test_what_tags_are_compared_with_is_siphash() -> None:
    # The example of the paper that describes the function: bytes 0 to 14 under the key 0 to 15.
    key = (0x0706050403020100, 0x0F0E0D0C0B0A0908)
    assert siphash(key, (0x0706050403020100, 0x0E0D0C0B0A0908 | 15 << 56)) == 0xA129CA6149BE45E5


@pytest.mark.gpu
def test_stamps_on_a_gpu_agree_with_events_and_show_when_they_were_changed() -> None:
    device = CudaDevice(0)
    device.compile()
    device.hold(2_000.0)
    device.stamp(first=True)
    device.stamp()
    start = device.mark()
    torch.cuda._sleep(1_000_000)
    end = device.mark()
    device.stamp()
    device.resume()
    times_us = device.stamps_us()
    opened, before, after = times_us
    assert opened == 0.0
    assert after - before == pytest.approx(device.elapsed_us(start, end), abs=12.0)
    device.stamp(first=True)
    device.stamp()
    device._stamps._table[1, 0] += 1
    assert device.stamps_us() is None
    device.stamp(first=True)
    assert device.stamps_us() == [0.0]


@pytest.mark.gpu
def test_tags_on_a_gpu_are_siphash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream.secrets, "randbits", lambda bits: 0x0706050403020100)
    clock = stream.StampClock(CudaDevice(0).properties, 0)
    clock.begin()
    clock.queue()
    clock.queue()
    time_ns, tag = clock._table[1].tolist()
    key = (0x0706050403020100,) * 2
    assert tag % 2**64 == siphash(key, (key[0], time_ns, 1 | 23 << 56))
    assert clock.read() is not None
