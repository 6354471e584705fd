"""Timing on a clockwork stream: between calls, what counts as exposed, the null kernel, conditions by round."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from clockwork import Clockwork

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import SETS, ProblemContext
from kbench.harness.device.device import CpuDevice, Device
from kbench.harness.device.environment import Conditions
from kbench.harness.timing import rounds, stamps
from kbench.harness.timing.batch import (
    LEAD,
    LONGEST_BATCH,
    LONGEST_HOLD_US,
    TAIL_MARKS,
    USUAL_FLUSHES,
    Sample,
    Sampler,
    Slot,
    batches,
)
from kbench.harness.timing.interval import PROCESS_SIGMA, PROCESS_SIGMA_US, centre
from kbench.harness.timing.rounds import (
    DISCARDS,
    PAUSE_S,
    UNJUDGED_BYTES,
    Audit,
    Candidate,
    RoundPlan,
    Timing,
    TimingSettings,
    adversarial_label,
    best_samples,
    make_slots,
    plan,
    shuffled_sets,
    time_candidate,
)
from kbench.harness.timing.stamps import CALIBRATION, NULL_KERNEL, WINDOW, NullKernel, corrected
from kbench.schemas import InfrastructureError

PATIENCE = 3
NEVER = range(0)


class Stream(Clockwork):
    """A clockwork that remembers what was queued."""

    def __init__(
        self, gap_us: float = 3.0, behind: bool = False, passes_second_time: bool = False, waits: bool = False
    ) -> None:
        """Let the stream stay ahead of the host when `behind` is set, or catch up soon after a call was queued.

        With `waits` it does so because every call waits for the stream, however long that is held.
        """
        self.waits, self.holding_us = waits, 0.0
        self.gap_us, self.behind = gap_us, behind
        self.patience = 1 if passes_second_time else PATIENCE
        self.asked: Counter[float] = Counter()
        self.events: list[str] = []

    def work(self, time_us: float) -> None:
        super().work(time_us)
        self.events.append("call")

    def nothing(self) -> None:
        self.work(0.0)

    def mark(self) -> float:
        self.events.append("mark")
        return super().mark()

    def flush(self) -> None:
        super().flush()
        self.events.append("flush")

    def hold(self, microseconds: float) -> None:
        self.events.append("hold")
        self.holding_us = microseconds

    def passed(self, mark: float) -> bool:
        # A host that asks for the same mark again and again sees it pass.
        self.asked[mark] += 1
        soon = self.waits if self.holding_us == LONGEST_HOLD_US else self.behind
        return soon or self.asked[mark] > self.patience

    def resume(self) -> None:
        self.events.append("resume")

    def synchronize(self) -> None:
        self.events.append("synchronize")

    def erase(self, tensor: Any) -> None:
        self.events.append("erase")


class Thermometer:
    """Reads conditions that turn harmful in given readings."""

    def __init__(self, hot: range) -> None:
        """Be hot in these readings, counted from 0."""
        self.hot, self.readings = hot, 0

    def read(self) -> Conditions:
        self.readings += 1
        reasons = ("hw_thermal",) if self.readings - 1 in self.hot else ()
        return Conditions(1980.0, 40.0 + self.readings, 100.0, reasons)


def slots(device: Stream, rounds: int, calls: int) -> list[Slot]:
    return [Slot("k", number, lambda: device.work(7.0)) for number in range(rounds) for _ in range(calls)]


def marks_between_calls(device: Stream) -> list[int]:
    groups = itertools.groupby(device.events, key=lambda event: event == "flush")
    return [sum(event == "mark" for event in group) for flush, group in groups if not flush]


@pytest.mark.parametrize(
    ("rounds", "calls", "lengths"),
    [(7, 19, [57, 57, 19]), (1, 150, [LONGEST_BATCH, LONGEST_BATCH, 150 - 2 * LONGEST_BATCH])],
)
def test_batches_are_whole_rounds_in_order_and_a_round_longer_than_a_batch_is_cut(
    rounds: int, calls: int, lengths: list[int]
) -> None:
    made = slots(Stream(), rounds, calls)
    parts = list(batches(made))
    assert [slot for part in parts for slot in part] == made
    assert [len(part) for part in parts] == lengths


def test_each_turn_of_a_round_has_a_batch_to_itself() -> None:
    device = Stream()
    made = [Slot("k", number, device.nothing, turn=turn) for number in range(3) for turn in (0, 1) for _ in range(9)]
    assert [len(part) for part in batches(made)] == [9] * 6


def test_short_kernels_are_timed_in_two_batches_a_round_and_long_ones_in_one() -> None:
    settings = TimingSettings()
    short, middle, long = (plan(us, us, 40.0, settings) for us in (5.0, 30.0, 300.0))
    assert (short.turns, middle.turns, long.turns) == (2, 2, 1)
    assert short.samples > middle.samples == long.samples


def test_every_buffer_set_is_used_as_often_as_any_other() -> None:
    rng = random.Random(1)
    assert sorted(shuffled_sets(16, 8, rng)) == sorted(2 * list(range(8)))
    assert len({tuple(shuffled_sets(8, 8, rng)) for _ in range(20)}) > 10
    assert len(set(shuffled_sets(3, 8, rng))) == 3


def test_a_sample_is_the_time_between_its_marks() -> None:
    device = Stream(gap_us=3.0)
    found = Sampler(device).run(slots(device, rounds=2, calls=5))
    assert [s.time_us for s in found] == pytest.approx([10.0] * 10)
    assert not any(s.exposed for s in found)


def test_the_number_of_marks_between_calls_varies() -> None:
    plain, spaced = Stream(), Stream()
    sampler = Sampler(plain)
    sampler.spare_marks = 0
    sampler.run(slots(plain, rounds=1, calls=40))
    Sampler(spaced).run(slots(spaced, rounds=1, calls=40))
    assert len(set(marks_between_calls(plain)[1:-1])) == 1
    assert len(set(marks_between_calls(spaced)[1:-1])) == 4


def test_a_tail_of_marks_follows_the_last_call() -> None:
    device = Stream()
    Sampler(device).run(slots(device, rounds=1, calls=3))
    after = device.events[len(device.events) - device.events[::-1].index("call") :]
    assert after[: 1 + TAIL_MARKS] == ["mark"] * (1 + TAIL_MARKS)
    assert "mark" not in after[1 + TAIL_MARKS :]


def test_calls_the_stream_has_caught_up_with_are_exposed_and_taken_once_more() -> None:
    device = Stream(behind=True)
    sampler = Sampler(device)
    found = sampler.run(slots(device, rounds=1, calls=LEAD + 4))
    assert all(s.exposed for s in found)
    assert sampler.waits == {"k": False}
    # Twice for the batch, once to see whether the call waits for the device by itself.
    assert device.events.count("hold") == 3


def test_whatever_a_call_returned_is_overwritten_in_probes_and_repeated_batches_too() -> None:
    device, returned = Stream(behind=True), torch.zeros(4)
    context = context_on(CpuDevice())

    def call() -> torch.Tensor:
        device.work(7.0)
        return returned

    Sampler(device).run([Slot("k", 0, call, buffers=context.sets[0])] * 3)
    assert device.events.count("call") > 6, "a batch, a probe, the batch again"
    assert device.events.count("erase") == device.events.count("call")


def test_calls_that_wait_for_the_device_are_not_held_for_and_not_repeated() -> None:
    device = Stream(behind=True, waits=True)
    sampler = Sampler(device)
    sampler.run(slots(device, rounds=1, calls=3))
    assert sampler.waits == {"k": True}
    # Once for the batch, twice to be sure.
    assert device.events.count("hold") == 3
    device.events.clear()
    found = sampler.run(slots(device, rounds=1, calls=3))
    assert len(found) == 3
    assert device.events.count("hold") == 3, "each call ends a batch"
    sampler.forget("k")
    assert sampler.waits == {}


def test_calls_with_too_little_queued_behind_them_are_thin_and_left_out_when_others_are_there() -> None:
    samples = [Sample("k", 0, 5.0 + n, exposed=n == 2, kept=None, thin=n > 0) for n in range(3)]
    assert best_samples(samples, "k") == samples[:1]
    assert best_samples(samples[1:], "k") == samples[1:2]
    assert best_samples(samples[2:], "k") == samples[2:]


def test_better_samples_are_taken_alone_only_where_half_of_the_rounds_have_some() -> None:
    def rounds(good: int) -> list[Sample]:
        which = itertools.product(range(5), (False, True))
        return [Sample("k", n, 5.0, exposed=exposed or n >= good, kept=None) for n, exposed in which]

    assert {s.exposed for s in best_samples(rounds(3), "k")} == {False}
    assert best_samples(rounds(2), "k") == rounds(2)


def test_a_stream_that_passes_a_call_before_the_lead_is_queued_makes_it_thin() -> None:
    device = Stream(passes_second_time=True)
    found = Sampler(device).run(slots(device, rounds=1, calls=LEAD + 4))
    assert all(s.thin for s in found)
    assert not any(s.exposed for s in found)
    assert device.events.count("hold") == 1


def test_each_round_is_watched_once_while_the_device_works_on_it() -> None:
    device = Stream()
    seen: list[tuple[int, bool]] = []
    Sampler(device).run(slots(device, rounds=5, calls=19), lambda n: seen.append((n, device.events[-1] == "resume")))
    assert seen == [(number, True) for number in range(5)]


@pytest.mark.parametrize(
    ("reached_s", "known_s"), [((0.0, 0.0, 0.0), 0.0), ((0.0, 0.15, 0.0), 0.15)], ids=["done", "busy"]
)
def test_time_spent_on_watching_a_device_that_is_done_is_not_its_own(
    reached_s: tuple[float, ...], known_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0

    def passed(mark: float) -> bool:
        nonlocal now_s
        late = now_s < mark
        now_s = max(now_s, mark)
        return not late

    def watch(number: int) -> None:
        nonlocal now_s
        now_s += 0.1

    monkeypatch.setattr("kbench.harness.timing.batch.time.perf_counter", lambda: now_s)
    device: Any = SimpleNamespace(is_gpu=True, passed=passed, synchronize=lambda: None)
    sampler: Any = SimpleNamespace(device=device)
    queued: Any = [SimpleNamespace(slot=SimpleNamespace(round=at), start=mark) for at, mark in enumerate(reached_s)]
    assert Sampler._finish(sampler, queued, watch) == known_s


def test_a_batch_is_held_until_all_of_it_is_queued() -> None:
    device = Stream()
    Sampler(device).run(slots(device, rounds=1, calls=3))
    steps = [event for event in device.events if event != "mark"]
    assert steps == ["synchronize", "hold", *["flush", "call"] * 3, "resume", "synchronize"]


def test_what_the_empty_kernel_takes_is_learnt_from_its_hidden_samples() -> None:
    device, late = Stream(gap_us=2.5), Stream(gap_us=2.5, behind=True)
    sampler, exposed = Sampler(device), Sampler(late)
    sampler.calibrate()
    exposed.run([Slot(NULL_KERNEL, 0, late.nothing)] * 5)
    assert sampler.null_kernel.time_us == pytest.approx(2.5)
    assert sampler.null_kernel.missing == 0
    assert exposed.null_kernel.time_us is None


@pytest.mark.parametrize(
    ("values", "typical"), [([5.0], 5.0), ([4.0, 6.0], 5.0), ([1.0, 5.0, 90.0], 5.0), ([6.0] * 14 + [90.0], 6.0)]
)
def test_the_centre_leaves_extremes_out(values: list[float], typical: float) -> None:
    assert centre(values) == pytest.approx(typical)


def test_the_centre_of_two_heaps_lies_between_them_where_a_median_jumps() -> None:
    fewer, more = centre([6.0] * 7 + [7.0] * 8), centre([6.0] * 8 + [7.0] * 7)
    assert 6.4 < more < fewer < 6.6


def context_on(device: Device) -> ProblemContext:
    definition = problem("gelu_tanh")
    return ProblemContext(definition, definition.tiny, device, (1, 2))


def timed(
    device: Stream,
    hot: range = NEVER,
    kernel: Candidate | None = None,
    judge: Callable[[Sequence[Sample]], bool] = lambda samples: True,
) -> Timing:
    """A kernel, usually of 7 us, against a reference that takes no time, marks included."""
    kernel = kernel or Candidate("k", lambda set_number: device.work(7.0))
    reader, rng, settings = Thermometer(hot), random.Random(0), TimingSettings()
    return time_candidate(kernel, context_on(device), Sampler(device), reader, rng, settings, judge)


class Left:
    """What an audited call left to be judged."""

    def __init__(self, nbytes: int) -> None:
        self.outputs = (torch.empty(nbytes, dtype=torch.uint8, device="meta"),)


@pytest.mark.parametrize(
    ("owned", "nbytes", "counts"),
    [(True, 8, [8]), (False, 8, [5, 3]), (True, UNJUDGED_BYTES, [5, 3])],
    ids=["can wait", "beside its judge", "too much memory"],
)
def test_looks_are_judged_together_where_nothing_speaks_against_it(
    owned: bool, nbytes: int, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    device, judged = Stream(), list[int]()
    hooks = (lambda: None, lambda returned: Left(nbytes))
    kernel = Candidate(
        "k",
        lambda set_number: device.work(7.0),
        audits=lambda: Audit(lambda set_number, choice: hooks),
        prepare=(lambda set_number: None) if owned else None,
    )
    monkeypatch.setattr(rounds, "settled", lambda timing, settings: timing.rounds >= 8)

    def judge(samples: Sequence[Sample]) -> bool:
        judged.append(len({sample.round for sample in samples}))
        assert any(sample.kept is not None for sample in samples)
        return True

    timed(device, NEVER, kernel, judge)
    assert judged == counts


@pytest.mark.parametrize(("samples", "rounds", "added"), [(1, 3, 2), (3, 5, 3), (8, 5, 6)])
def test_few_calls_have_few_more_on_adversarial_inputs(samples: int, rounds: int, added: int) -> None:
    hooks = (lambda: None), (lambda returned: None)
    audit = Audit(lambda set_number, choice: hooks, [lambda set_number: hooks] * 6)
    kernel = Candidate("k", lambda set_number: None, lambda: audit)
    slots = make_slots(
        [kernel], context_on(Stream()), range(rounds), RoundPlan(samples, 1, (rounds,)), random.Random(0)
    )
    assert sum(slot.label == adversarial_label("k") for slot in slots) == added


def test_calls_on_adversarial_inputs_are_no_part_of_a_kernels_time() -> None:
    device = Stream()
    taken: list[float] = []

    def before() -> None:
        taken.append(500.0)

    def call(set_number: int) -> None:
        device.work(taken.pop() if taken else 7.0)

    usual = (lambda: None), (lambda returned: None)
    audit = Audit(lambda set_number, choice: usual, [lambda set_number: (before, lambda returned: None)] * 3)
    labels: list[str] = []

    def judge(samples: Sequence[Sample]) -> bool:
        labels.extend(sample.label for sample in samples if sample.time_us > 400.0)
        return True

    found = timed(device, NEVER, Candidate("k", call, lambda: audit), judge)
    assert set(labels) == {adversarial_label("k")}
    assert max(found.samples_us) < 20.0
    assert found.runtime.value == pytest.approx(10.0)


@pytest.mark.parametrize(("share", "warm"), [(0.25, True), (0.5, False)])
def test_a_call_before_which_the_cache_was_not_flushed_is_noticed(share: float, warm: bool) -> None:
    device = Stream()
    sampler = Sampler(device)  # type: ignore[arg-type]
    own = [Slot(NULL_KERNEL, 0, device.nothing) for _ in range(USUAL_FLUSHES)]
    assert not any(sample.warm_us for sample in sampler.run(own))

    def flushed_before() -> None:
        device.flush = lambda: device.work(share * 33.0 - device.gap_us)  # type: ignore[method-assign]

    kernel = Slot("k", 0, device.nothing, prepare=flushed_before)
    assert [sample.warm_us for sample in sampler.run([kernel, *own])] == [share * 33.0 if warm else None] * (
        1 + USUAL_FLUSHES
    )
    assert sampler.flush_us == 33.0, "tampering does not become usual"


def test_without_a_usual_time_of_the_null_kernel_nothing_is_corrected() -> None:
    found = timed(Stream(gap_us=3.0))
    assert found.runtime.value == pytest.approx(10.0)
    assert found.null_us == pytest.approx(3.0)
    assert found.shift_us is None


def test_two_processes_with_different_marks_agree_once_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "NOMINAL_US", {"cpu": 2.5})
    near, far = timed(Stream(gap_us=2.4)), timed(Stream(gap_us=3.0))
    assert near.shift_us == pytest.approx(-0.1)
    assert far.shift_us == pytest.approx(0.5)
    for found in (near, far):
        assert found.runtime.value == pytest.approx(9.5)
        assert found.speedup.value == pytest.approx(2.5 / 9.5)
    assert far.samples_us == pytest.approx([10.0] * len(far.samples_us))


def test_conditions_are_read_in_every_round() -> None:
    found = timed(Stream())
    assert found.rounds >= 5
    # Read in both turns of a round, of which the later reading is kept.
    assert [c.temperature_c for c in found.conditions] == [42.0 + 2 * n for n in range(found.rounds)]


def test_only_the_rounds_during_which_the_gpu_was_slowed_are_thrown_away() -> None:
    found = timed(Stream(), hot=range(1, 3))
    # The second and third reading are of the first round's second turn and of the second round's first.
    assert len(found.conditions) == found.rounds + 2
    assert found.runtime


def test_timing_that_goes_on_after_slowed_rounds_rests_first(monkeypatch: pytest.MonkeyPatch) -> None:
    rests: list[float] = []
    monkeypatch.setattr("kbench.harness.timing.rounds.time.sleep", rests.append)
    timed(Stream())
    assert rests == []
    timed(Stream(), hot=range(5))
    assert rests == [PAUSE_S]


def test_a_gpu_that_stays_slowed_is_a_failure_of_the_machine() -> None:
    with pytest.raises(InfrastructureError, match="hw_thermal"):
        timed(Stream(), hot=range(10 * DISCARDS))


def test_the_spread_between_processes_is_part_of_an_interval_without_noise() -> None:
    runtime = timed(Stream()).runtime
    assert runtime.half_width == pytest.approx(1.96 * math.hypot(PROCESS_SIGMA, PROCESS_SIGMA_US / 10.0), rel=0.01)


def test_the_null_kernel_forgets_old_samples() -> None:
    one = NullKernel("no such gpu")
    assert one.missing == CALIBRATION
    one.add([9.0] * WINDOW)
    one.add([2.0] * WINDOW)
    assert one.time_us == pytest.approx(2.0)
    assert one.shift_us is None


def test_a_correction_never_takes_more_than_half() -> None:
    assert corrected(2.0, 0.3) == pytest.approx(1.7)
    assert corrected(2.0, 5.0) == pytest.approx(1.0)
    assert corrected(2.0, None) == 2.0


def test_a_null_kernel_that_was_slowed_down_takes_little_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "NOMINAL_US", {"some gpu": 3.0})
    slowed, usual = NullKernel("some gpu"), NullKernel("some gpu")
    slowed.add([50.0] * CALIBRATION)
    usual.add([3.1] * CALIBRATION)
    assert slowed.shift_us == stamps.MOST_SHIFT_US
    assert usual.shift_us == pytest.approx(0.1)


def test_what_was_learnt_of_one_problems_reference_is_not_believed_of_anothers() -> None:
    sampler = Sampler(Stream(behind=True, waits=True))
    sampler.serve(("histogram", "large"), "k")
    sampler.run(slots(sampler.device, rounds=1, calls=2))  # type: ignore[arg-type]
    assert sampler.waits == {"k": True}
    sampler.serve(("histogram", "large"), "k")
    assert sampler.waits == {"k": True}
    sampler.serve(("softmax", "large"), "k")
    assert sampler.waits == {}


def test_only_buffer_sets_that_were_called_with_are_audited_and_long_looks_more_often() -> None:
    context = context_on(CpuDevice())

    def audit(set_number: int, choice: int) -> tuple[Callable[[], None], Callable[[Any], Any]]:
        return (lambda: audited.append(set_number)), (lambda returned: None)

    candidate = Candidate("k", lambda set_number: set_number, lambda: Audit(audit))
    for seed in range(30):
        audited: list[int] = []
        made = make_slots([candidate], context, range(5), RoundPlan(8, 0, (5,), turns=2), random.Random(seed))
        called = set(range(SETS))
        for slot in made:
            if slot.label != "k":
                continue
            set_number = slot.call()
            if slot.before is not None:
                slot.before()
                assert set_number in called
            called.add(set_number)
        assert len(audited) == 7, "a tenth of the calls"
