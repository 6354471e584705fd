"""Audits: what timed calls are shown, what is judged of them, and who is rejected for keeping answers."""

import dataclasses
import itertools
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.audit.audit import Auditor, Shows
from kbench.harness.audit.reaudit import MANY_TIMES, ROUNDS, Reaudit, suspicious, uneven
from kbench.harness.bench.context import ProblemContext
from kbench.harness.bench.reference_inputs import Drawing, ReferenceInputs, damaged
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.device.device import CpuDevice
from kbench.harness.timing.batch import Sample, Sampler, Slot, Watch
from kbench.harness.timing.rounds import ANCHOR, AUDITS, INSPECTED, Candidate, RoundPlan, adversarial_label, make_slots
from kbench.harness.verify import CHANGED, Verdict, verify_together
from kbench.schemas import InfrastructureError, Status

LOOK = RoundPlan(4, 0, (5,))


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.fixture
def auditor(context: ProblemContext) -> Auditor:
    return Auditor(context, Verdict())


def candidate(auditor: Auditor, run: Callable[..., Any]) -> Candidate:
    return auditor.candidate("k", ProcessSubject(run, auditor.context))


def reaudited(auditor: Auditor, kernel: Candidate, sampler: Sampler | None = None) -> Verdict:
    """What is known of a kernel after it was looked at again where that was needed."""
    Reaudit(auditor, kernel, sampler or Sampler(auditor.context.device), random.Random(1)).run()
    return auditor.verdict


def look(kernel: Candidate, context: ProblemContext, seed: int = 0) -> list[Sample]:
    return Sampler(context.device).run(make_slots([kernel], context, range(5), LOOK, random.Random(seed)))


def fingerprint(x: torch.Tensor) -> tuple[float, ...]:
    return tuple(x.view(-1)[:4].tolist())


def noting(seen: list[tuple[float, ...]]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A correct kernel that writes down what it is shown."""

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(fingerprint(x))
        return gelu(x)

    return run


def test_every_look_shows_inputs_nobody_has_seen(context: ProblemContext, auditor: Auditor) -> None:
    known = {fingerprint(reference.inputs[0]) for reference in context.references}
    seen: list[tuple[float, ...]] = []
    kernel = candidate(auditor, noting(seen))
    for number in range(4):
        seen_before = set(seen)
        samples = look(kernel, context, number)
        assert auditor.audit(samples)
        (held_out,) = set(seen) - seen_before - known
        (fresh,) = (s.kept for s in samples if s.kept is not None and s.kept.fresh)
        assert fingerprint(fresh.reference.inputs[0]) == held_out


class Planned(ProcessSubject):
    """A kernel whose memory is the harness's, but perhaps for a variable."""

    owned = True
    not_restored: Sequence[str] = ()


@pytest.mark.parametrize(("kept", "expected"), [([], [1, 0, 0, 1, 0, 0]), (["variable v"], [1] * 6)])
def test_a_kernel_that_keeps_nothing_meets_held_out_inputs_once_per_timing(
    context: ProblemContext, auditor: Auditor, kept: list[str], expected: list[int]
) -> None:
    subject = Planned(gelu, context)
    subject.not_restored = kept
    kernel = auditor.candidate("k", subject)
    met: list[int] = []
    for _ in range(2):
        auditor.begin()
        for number in range(3):
            samples = look(kernel, context, number)
            assert auditor.audit(samples)
            met.append(sum(s.kept is not None and s.kept.fresh for s in samples))
    assert met == expected


@pytest.mark.parametrize("suspecting", [False, True])
def test_a_kernel_cannot_find_held_out_inputs_in_memory_before_it_is_shown_them(
    suspecting: bool, context: ProblemContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[torch.Tensor, ReferenceInputs]] = []
    draw = ProblemContext.held_out

    def keep(self: ProblemContext, **options: bool) -> ReferenceInputs:
        made = draw(self, **options)
        drawn.append((made.inputs[0].clone(), made))
        return made

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        plain, made = drawn[-1]
        shown.append(shown[-1] or torch.equal(x, plain))
        assert torch.equal(made.inputs[0], plain) == shown[-1]
        return (gelu(x),)

    monkeypatch.setattr(ProblemContext, "held_out", keep)
    later = 0
    for seed in range(20):
        context.reset()
        auditor = Auditor(context, Verdict())
        auditor._shows = Shows.HELD_OUT if suspecting else Shows.USUAL
        kernel = auditor.candidate("k", Planned(run, context))
        for _ in range(2 if suspecting else 1):
            shown = [False]
            samples = look(kernel, context, seed)
            assert auditor.audit(samples)
            assert shown[-1]
            assert sum(sample.kept is not None and sample.kept.fresh for sample in samples) == 1
            later += not shown[1]
    assert later > 0, "some are shown after calls that could have looked for them"
    assert len(drawn) == (40 if suspecting else 3)


def test_held_out_inputs_of_several_kernels_are_drawn_again_when_one_has_damaged_them(context: ProblemContext) -> None:
    first = context.held_out_once()
    assert first.hidden
    assert context.held_out_once() is first
    first.inputs[0].view(-1)[0] = 7.0
    second = context.held_out_once()
    assert second is not first
    second.reveal(context.device)
    assert context.corrupted() is None
    second.inputs[0].view(-1)[0] = 7.0
    assert context.corrupted() == f"inputs of reference inputs {len(context.references)}"


def test_two_kernels_in_the_same_rounds_have_held_out_inputs_of_their_own(context: ProblemContext) -> None:
    auditor = Auditor(context, Verdict(), several=True)
    found = [auditor.candidate(name, Planned(gelu, context)) for name in ("one", "other")]
    samples = Sampler(context.device).run(make_slots(found, context, range(5), LOOK, random.Random(0)))
    assert len({s.kept.reference.drawing for s in samples if s.kept is not None and s.kept.fresh}) == 2


def test_a_kernel_that_keeps_the_cache_from_being_flushed_is_refused(context: ProblemContext, auditor: Auditor) -> None:
    first, *others = look(auditor.candidate("k", Planned(lambda x: (gelu(x),), context)), context)
    assert not auditor.audit([dataclasses.replace(first, warm_us=2.0), *others])
    assert auditor.verdict.status is Status.REJECTED
    assert all(words in str(auditor.verdict.reason) for words in ("cache", "2.0 us"))


def test_inputs_that_are_wrong_only_while_the_reference_runs_are_noticed(
    context: ProblemContext, auditor: Auditor
) -> None:
    samples = look(auditor.candidate("k", Planned(lambda x: (gelu(x),), context)), context)
    for set_number in range(len(context.sets)):
        context.inspect(set_number)
    assert context.inspected() is None
    buffers = context.sets[0].tensors[0]
    buffers[0] += 1
    context.inspect(0)
    buffers[0] -= 1
    context.sets[0].fill(context.references[0])
    assert not auditor.audit(samples)
    said = (auditor.verdict.status, auditor.verdict.reason)
    assert said == (Status.INCORRECT, "while the reference was timed: tensor input 0 was modified")
    context.inspect(0)
    context._inspected[0][0][1].logical_not_()
    assert context.inspected() == "what was found of inputs was changed"
    context.inspect(0)
    context._inspected[0][0][1].logical_not_()
    context.reset()
    assert context.inspected() is None, "what one kernel did is not the next one's"


def test_some_calls_of_the_reference_are_inspected_where_the_harness_owns_the_memory(context: ProblemContext) -> None:
    auditor = Auditor(context, Verdict())
    chosen = RoundPlan(2, 4, (5,))
    for subject, some in ((Planned(gelu, context), True), (ProcessSubject(gelu, context), False)):
        kernel = auditor.candidate("k", subject)
        slots = make_slots([kernel], context, range(20), chosen, random.Random(0))
        inspected = [slot.before is not None for slot in slots if slot.label == ANCHOR]
        assert sum(inspected) == (INSPECTED if some else 0)


def test_a_copy_that_a_later_call_has_changed_is_not_believed_even_if_it_is_right_now(context: ProblemContext) -> None:
    auditor = Auditor(context, verdict := Verdict())
    samples = look(auditor.candidate("k", Planned(lambda x: (torch.zeros_like(x),), context)), context)
    for kept in (sample.kept for sample in samples if sample.kept is not None):
        kept.outputs[0].copy_(gelu(kept.reference.inputs[0]))
    assert not auditor.audit(samples)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, CHANGED)


def test_a_kernel_that_changes_copies_while_it_is_verified_is_refused(
    context: ProblemContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies: list[tuple[torch.Tensor, torch.Tensor]] = []
    clone = torch.Tensor.clone

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        for copy, inputs in copies:
            copy.copy_(gelu(inputs))
        given = clone(x)
        y = torch.zeros_like(x)

        def kept(output: torch.Tensor) -> torch.Tensor:
            copies.append((clone(output), given))
            return copies[-1][0]

        monkeypatch.setattr(torch.Tensor, "clone", kept)
        return (y,)

    verdict = verify_together(Planned(run, context), context, Verdict(), context.references[:2])
    assert (verdict.status, verdict.reason) == (Status.REJECTED, CHANGED)


def tells_timed_calls(context: ProblemContext, *, honest: bool) -> Planned:
    """A kernel that is right on adversarial inputs while it is verified, and if honest, always."""
    verified = True

    def run(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (gelu(x if verified or honest else x.clamp(-8, 8)),)

    subject = Planned(run, context)
    assert verify_together(subject, context, Verdict(), [*context.references[:2], *context.adversarial()]).ok
    verified = False
    for buffers in context.sets:
        buffers.reset(context.references[0])
    return subject


@pytest.mark.parametrize("honest", [True, False])
def test_a_kernel_must_be_right_on_adversarial_inputs_among_its_timed_calls_too(
    context: ProblemContext, auditor: Auditor, honest: bool
) -> None:
    kernel = auditor.candidate("k", tells_timed_calls(context, honest=honest))
    shown: list[set[str | None]] = []
    for number in range(5):
        if number == 3:
            auditor.begin()
        samples = look(kernel, context, number)
        added = [sample for sample in samples if sample.label == adversarial_label("k")]
        assert sum(sample.label == "k" for sample in samples) == 20, "they are added to the others"
        shown.append({sample.kept.reference.drawing.case for sample in added})
        assert {buffers.holds.drawing.case for buffers in context.sets if buffers.holds is not None} == {None}
        assert auditor.audit(samples) is honest
    every = {drawing.case for drawing in context.case_drawings}
    most = [min(len(every), 20 // 5)] * 2
    assert [len(shown[at]) for at in (0, 3)] == most, "as many as there may be in the first look of a timing"
    assert set().union(*shown) <= every
    assert [len(shown[at]) for at in (1, 2, 4)] == [1] * 3
    assert auditor.verdict.status is (Status.OK if honest else Status.INCORRECT)
    assert honest or "on adversarial inputs" in str(auditor.verdict.reason)


def test_adversarial_cases_that_a_kernel_was_not_shown_come_first(context: ProblemContext) -> None:
    context.hold_back()
    kernel = Auditor(context, Verdict()).candidate("k", tells_timed_calls(context, honest=True))
    few, shown = RoundPlan(1, 0, (5,)), list[str | None]()
    for number in range(len(context.case_drawings)):
        slots = make_slots([kernel], context, range(5), few, random.Random(number))
        added = [s.kept for s in Sampler(context.device).run(slots) if s.label == adversarial_label("k")]
        shown += [one.reference.drawing.case for one in added]
    # What verification has held back comes first; the first look has two.
    assert shown[0] == context.held_back is not None
    assert set(shown) == {drawing.case for drawing in context.case_drawings}
    assert len(shown) == len(context.case_drawings) + 1


def test_of_large_outputs_fewer_adversarial_cases_are_kept_to_be_judged(
    context: ProblemContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context.judge, "kept_bytes", 2 * sum(context.output_bytes))
    kernel = Auditor(context, Verdict()).candidate("k", tells_timed_calls(context, honest=True))
    samples = look(kernel, context)
    assert sum(sample.label == adversarial_label("k") for sample in samples) == 2


def test_adversarial_inputs_are_no_part_of_calls_that_are_all_ordinary(
    context: ProblemContext, auditor: Auditor
) -> None:
    kernel = auditor.candidate("k", tells_timed_calls(context, honest=True))
    with auditor.showing(Shows.ORDINARY):
        assert {sample.label for sample in look(kernel, context)} == {"k"}
    assert {sample.label for sample in look(kernel, context)} > {"k"}


@pytest.mark.parametrize(
    ("least", "late", "ok"), [(40.0, False, False), (60.0, False, True), (40.0, True, True)], ids=str
)
def test_where_bytes_vary_no_call_may_take_less_than_half_the_median(
    auditor: Auditor, least: float, late: bool, ok: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CpuDevice, "is_gpu", True)
    # Where the host was late in most calls, those that it was not late in are the usual ones.
    slow = [Sample("k", number, 100.0, exposed=late, kept=None) for number in range(15)]
    fast = [Sample("k", number, least, exposed=False, kept=None) for number in range(15 if late else 1)]
    assert auditor.audit([*slow, *fast])
    kernel = Candidate("k", lambda set_number: None)
    Reaudit(auditor, kernel, Sampler(auditor.context.device), random.Random(0)).refuse_short_calls()
    assert auditor.verdict.ok is ok
    assert ok or auditor.verdict.reason == (
        "takes 100.0 us and in some calls 40.0 us, with other outputs: it leaves work out"
    )


def test_a_rivals_outputs_are_gone_before_a_call(context: ProblemContext) -> None:
    erased: list[ProcessSubject] = []

    class Noting(Planned):
        def erase(self) -> None:
            erased.append(self)

    auditor = Auditor(context, Verdict(), several=True)
    subjects = [Noting(gelu, context), Noting(gelu, context)]
    for candidate in [auditor.candidate(str(at), subject) for at, subject in enumerate(subjects)]:
        candidate.prepare(0)
    assert erased == subjects[::-1]


def wrong_where_inputs_are_held_out(context: ProblemContext) -> Callable[[torch.Tensor], torch.Tensor]:
    known = {fingerprint(reference.inputs[0]) for reference in context.references}
    return lambda x: gelu(x) if fingerprint(x) in known else torch.zeros_like(x)


def wrong_where_inputs_seem_unchanged(patience: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """It knows a call with new inputs from an ordinary one, wherever it keeps that knowledge."""
    last: dict[int, tuple[tuple[float, ...], int]] = {}

    def run(x: torch.Tensor) -> torch.Tensor:
        before, times = last.get(x.data_ptr(), ((), 0))
        times = times + 1 if before == fingerprint(x) else 1
        last[x.data_ptr()] = (fingerprint(x), times)
        return torch.zeros_like(x) if times > patience else gelu(x)

    return run


@pytest.mark.parametrize("patience", [0, 1, 3], ids=["held-out inputs", "after one call", "after three calls"])
def test_a_kernel_that_leaves_work_out_where_it_knows_its_inputs_is_found(
    context: ProblemContext, auditor: Auditor, patience: int
) -> None:
    run = wrong_where_inputs_seem_unchanged(patience) if patience else wrong_where_inputs_are_held_out(context)
    kernel = candidate(auditor, run)
    judged = [auditor.audit(look(kernel, context, number)) for number in range(4)]
    assert not all(judged)
    assert auditor.verdict.status is Status.INCORRECT


def test_held_out_inputs_come_first_and_every_other_call_is_judged_on_what_its_buffers_hold(
    context: ProblemContext,
) -> None:
    audit = candidate(Auditor(context, Verdict()), gelu).audits
    for look_again in range(3):
        hooks = audit()
        for number, choice in enumerate(random.Random(look_again).choices(range(1 << 16), k=20)):
            held = context.sets[0].holds
            before, after = hooks.usual(0, choice)
            before()
            kept = after(gelu(*context.sets[0].inputs))
            assert kept.fresh == (number == 0)
            assert kept.reference is context.sets[0].holds
            assert (kept.reference is held) == (number % 2 == 1)


class Watched(Planned):
    """A planned kernel, with a fingerprint of what every call returned."""

    def __init__(self, run: Callable[..., Any], context: ProblemContext) -> None:
        super().__init__(run, context)
        self._found: list[tuple[Drawing, int]] = []

    def call(self, set_number: int) -> Any:
        returned = super().call(set_number)
        held = self._context.sets[set_number].holds
        self._found.append((held.drawing, hash(tuple(returned.reshape(-1).tolist()))))
        return returned

    def fingerprints(self) -> list[tuple[Drawing, int]]:
        found, self._found = self._found, []
        return found


def timed(context: ProblemContext, run: Callable[..., Any], *, audits_see: bool = True) -> tuple[Auditor, int]:
    """A kernel verified and timed, then looked at again if need be; and how many calls that took."""
    auditor, subject = Auditor(context, Verdict()), Watched(run, context)
    for set_number in range(2):
        context.sets[set_number].fill(context.references[0])
        subject.call(set_number)
    kernel = auditor.candidate("k", subject)
    with pytest.MonkeyPatch.context() as patch:
        if not audits_see:
            patch.setattr(auditor, "_audit_outputs", lambda audited: None)
        for number in range(3):
            auditor.audit(look(kernel, context, number))
    assert auditor.verdict.ok
    taken = [0]

    def call(set_number: int) -> Any:
        taken[0] += 1
        return subject.call(set_number)

    with pytest.MonkeyPatch.context() as patch:
        # A busy machine makes times suspicious, which is not what these tests are about.
        patch.setattr(Reaudit, "confirm_times", lambda *_: None)
        Reaudit(auditor, dataclasses.replace(kernel, call=call), Sampler(context.device), random.Random(0)).run()
    return auditor, taken[0]


@pytest.mark.parametrize(
    ("run", "least_calls", "status"),
    [
        (lambda x, call: gelu(x), 0, Status.OK),
        (lambda x, call: torch.zeros_like(x) if call % 9 == 8 else gelu(x), ROUNDS, Status.INCORRECT),
        (lambda x, call: gelu(x) * (1.0 + 1e-7 * (call % 5)), ROUNDS, Status.OK),
    ],
    ids=["the bytes of a judged answer", "work left out where no audit looks", "sums whose order changes"],
)
def test_a_kernel_whose_outputs_have_other_bytes_than_judged_ones_has_every_call_of_a_look_judged(
    context: ProblemContext, run: Callable[[torch.Tensor, int], torch.Tensor], least_calls: int, status: Status
) -> None:
    calls = itertools.count()
    auditor, again = timed(context, lambda x: run(x, next(calls)), audits_see=status is Status.OK)
    assert (again >= least_calls) if least_calls else (again == 0)
    assert auditor.verdict.status is status


def test_in_a_look_of_ordinary_calls_all_are_judged(context: ProblemContext) -> None:
    assert len(context.sets) > 2
    kernel = candidate(Auditor(context, Verdict()), gelu)
    everything = RoundPlan(6, 0, (5,), audited=1.0)
    slots = make_slots([kernel], context, range(5), everything, random.Random(0))
    assert sum(slot.after is not None for slot in slots) == len(slots) == 30


def test_times_of_an_attempt_that_is_thrown_away_do_not_count(context: ProblemContext, auditor: Auditor) -> None:
    kernel = candidate(auditor, slow_when_new({}))
    assert auditor.audit(look(kernel, context))
    second = Reaudit(auditor, kernel, Sampler(context.device), random.Random(0))
    assert second.suspicious
    auditor.begin()
    assert not second.suspicious


def slow_when_new(kept: dict[tuple[float, ...], torch.Tensor]) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        key = fingerprint(x)
        if key not in kept:
            time.sleep(0.01)
            kept[key] = gelu(x)
        return kept[key].clone()

    return run


@pytest.mark.parametrize("survives", [True, False], ids=["answers survive drawing", "answers do not"])
def test_a_kernel_that_keeps_answers_by_contents_is_rejected(
    context: ProblemContext, auditor: Auditor, survives: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[float, ...], torch.Tensor] = {}
    draw = ProblemContext.held_out

    def draw_over_what_is_kept(self: ProblemContext) -> ReferenceInputs:
        kept.clear()
        return draw(self)

    if survives:
        kept |= {fingerprint(one.inputs[0]): gelu(one.inputs[0]) for one in context.references[:2]}
    else:
        monkeypatch.setattr(ProblemContext, "held_out", draw_over_what_is_kept)
    kernel = candidate(auditor, slow_when_new(kept))
    assert auditor.audit(look(kernel, context))
    verdict = reaudited(auditor, kernel)
    assert verdict.status is Status.REJECTED
    assert "it has not been shown" in str(verdict.reason)


@pytest.mark.parametrize("suspected", [True, False])
def test_a_kernel_is_called_again_only_under_a_suspicion_which_is_dropped_where_more_rounds_do_not_confirm_it(
    context: ProblemContext, auditor: Auditor, suspected: bool
) -> None:
    calls: list[tuple[float, ...]] = []
    kernel = candidate(auditor, noting(calls))
    for sample in look(kernel, context):
        held_up = suspected and sample.kept is not None and sample.kept.fresh
        assert auditor.audit([dataclasses.replace(sample, time_us=1e5 if held_up else 2_000.0)])
    before = len(calls)
    assert reaudited(auditor, kernel, Paced(context.device, lambda slot: 2_000.0)).ok
    assert len(calls) == before + 3 * ROUNDS * suspected, "one look clears it; calls of 2 ms: three a round"


@pytest.mark.parametrize("is_gpu", [True, False])
def test_a_kernel_that_turns_honest_under_suspicion_is_held_to_its_earlier_times(
    context: ProblemContext, auditor: Auditor, is_gpu: bool
) -> None:
    context.device.is_gpu = is_gpu
    kernel = candidate(auditor, gelu)
    for sample in look(kernel, context):
        fresh = sample.kept is not None and sample.kept.fresh
        assert auditor.audit([dataclasses.replace(sample, time_us=10_000.0 if fresh else 5_000.0)])
    assert reaudited(auditor, kernel, Paced(context.device, lambda slot: 10_000.0)).status is (
        Status.REJECTED if is_gpu else Status.OK
    )


@pytest.mark.parametrize(
    ("times_us", "expected"),
    [
        ([100.0] * 15, False),
        ([100.0] * 13 + [500.0] * 2, False),
        ([60.0] + [100.0] * 14, True),
        ([60.0] * 11 + [100.0] * 4, True),
        ([93.0] + [100.0] * 14, False),
        ([8.0] + [10.5] * 14, False),
        ([60.0, 100.0, 100.0, 100.0], False),
    ],
    ids=["even", "held up twice", "one is fast", "most are fast", "by 7 %", "by 2.5 us", "too few"],
)
def test_times_are_uneven_when_some_calls_are_faster_than_a_fifth_of_the_others(
    times_us: list[float], expected: bool
) -> None:
    assert uneven(times_us) is expected


class Paced(Sampler):
    """Makes the calls, and says how long each took: a CPU that is said to be a GPU has no marks to wait for."""

    def __init__(self, device: CpuDevice, pace: Callable[[Slot], float]) -> None:
        super().__init__(device)
        self.pace = pace

    def run(self, slots: Sequence[Slot], watch: Watch | None = None) -> list[Sample]:
        return [Sample(slot.label, slot.round, self.pace(slot), False, self._called(slot)) for slot in slots]

    @staticmethod
    def _called(slot: Slot) -> Any:
        for queue in (slot.prepare, slot.before):
            if queue is not None:
                queue()
        returned = slot.call()
        return None if slot.after is None else slot.after(returned)


def timed_unevenly(
    context: ProblemContext, subject: ProcessSubject, fast: Callable[[int], bool], *, is_gpu: bool = True
) -> Auditor:
    """A kernel after timing in which some calls, by their number, took 60 us and the others 100; adversarial inputs at
    hand, and nothing suspicious about held-out ones."""
    assert len(list(context.adversarial())) >= 2
    auditor = Auditor(context, Verdict())
    kernel = auditor.candidate("k", subject)
    with pytest.MonkeyPatch.context() as patch:
        for other in ("confirm_times", "refuse_longer_judged_calls"):
            patch.setattr(Reaudit, other, lambda *_: None)
        samples = look(kernel, context)
        auditor.audit([dataclasses.replace(s, time_us=60.0 if fast(at) else 100.0) for at, s in enumerate(samples)])
        context.device.is_gpu = is_gpu
        reaudited(auditor, kernel, Paced(context.device, lambda slot: 100.0))
    return auditor


def test_a_shortcut_that_some_calls_take_is_found_on_adversarial_inputs(context: ProblemContext) -> None:
    rng = random.Random(5)
    timed_calls = 100

    def run(x: torch.Tensor) -> torch.Tensor:
        nonlocal timed_calls
        timed_calls -= 1
        # Right in the few calls that a look has, and in six of ten after that.
        return gelu(x) if timed_calls > 60 or rng.random() < 0.6 else torch.relu(x)

    auditor = timed_unevenly(context, Planned(run, context), lambda at: at % 3 == 0)
    assert auditor.verdict.status is Status.INCORRECT
    assert "adversarial" in str(auditor.verdict.reason)


@pytest.mark.parametrize("uneven_times", [True, False])
@pytest.mark.parametrize("is_gpu", [True, False])
def test_an_honest_kernel_is_called_on_adversarial_inputs_again_only_if_its_times_are_uneven(
    context: ProblemContext, uneven_times: bool, is_gpu: bool
) -> None:
    calls: list[tuple[float, ...]] = []
    cases = len(list(context.adversarial()))
    auditor = timed_unevenly(
        context, Planned(noting(calls), context), lambda at: uneven_times and at % 3 == 0, is_gpu=is_gpu
    )
    usual = len(look(auditor.candidate("again", Planned(gelu, context)), context))
    assert len(calls) == usual + (MANY_TIMES * cases if uneven_times and is_gpu else 0)
    assert auditor.verdict.ok


def test_what_another_kernels_audit_left_in_the_buffers_counts_as_shown(context: ProblemContext) -> None:
    auditor = Auditor(context, Verdict(), several=True)
    seen: list[tuple[float, ...]] = []
    subject = ProcessSubject(noting(seen), context)
    first, second = (auditor.candidate(label, subject) for label in ("first", "second"))
    for seed in range(40):
        seen.clear()
        for at, buffers in enumerate(context.sets):
            buffers.reset(context.references[at % 2])
        slots = make_slots([first, second], context, range(5), LOOK, random.Random(seed))
        mine: set[tuple[float, ...]] = set()
        for slot in slots:
            if slot.before is not None:
                slot.before()
            returned = slot.call()
            if slot.label == "second":
                kept = None if slot.after is None else slot.after(returned)
                assert not (kept is not None and kept.fresh and seen[-1] in mine)
                mine.add(seen[-1])


def test_an_error_of_a_comparison_says_which_kernel_it_is_about(context: ProblemContext) -> None:
    auditor = Auditor(context, Verdict(), several=True)
    wrong = auditor.candidate("second", ProcessSubject(torch.zeros_like, context))
    auditor.audit(look(wrong, context))
    assert str(auditor.verdict.reason).startswith("second: in a timed call: ")


@pytest.mark.parametrize("broken", ["held_out", "expected"])
def test_what_the_harness_itself_fails_is_the_machines_fault(
    broken: str, context: ProblemContext, auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any) -> None:
        raise RuntimeError("out of memory")

    kernel = candidate(auditor, gelu)
    monkeypatch.setattr(ProblemContext if broken == "held_out" else ReferenceInputs, broken, fail)
    with pytest.raises(InfrastructureError, match=r"cannot be .*: out of memory"):
        auditor.audit(look(kernel, context))


@pytest.mark.parametrize("rounds", [1, 3, 5])
def test_every_look_has_two_audits_however_few_its_calls(rounds: int, context: ProblemContext) -> None:
    kernel = candidate(Auditor(context, Verdict()), gelu)
    for seed in range(50):
        slots = make_slots([kernel], context, range(rounds), RoundPlan(1, 1, (rounds,)), random.Random(seed))
        assert sum(slot.before is not None for slot in slots) == min(rounds, AUDITS)


@pytest.mark.parametrize(
    ("judged_us", "later_us", "words"),
    [
        (110.0, 100.0, "in calls that are judged"),
        (103.0, 100.0, None),
        (110.0, 110.0, None),
        (120.0, 120.0, "in calls that are judged"),
    ],
    ids=["longer", "noise", "slower GPU", "notices the second look"],
)
def test_judged_calls_take_as_long_as_others(
    context: ProblemContext, auditor: Auditor, judged_us: float, later_us: float, words: str | None
) -> None:
    kernel = auditor.candidate("k", Planned(gelu, context))
    usual_us = [100.0]
    sampler = Paced(context.device, lambda slot: judged_us if slot.after is not None else usual_us[-1])
    slots = make_slots([kernel], context, range(5), RoundPlan(6, 0, (5,), audited=0.2), random.Random(2))
    with pytest.MonkeyPatch.context() as patch:
        for other in ("confirm_times", "refuse_displaced_work"):
            patch.setattr(Reaudit, other, lambda *_: None)
        assert auditor.audit(sampler.run(slots))
        context.device.is_gpu = True
        usual_us.append(later_us)
        reaudited(auditor, kernel, sampler)
    assert auditor.verdict.ok is (words is None)
    assert words is None or words in str(auditor.verdict.reason)


@pytest.mark.parametrize(
    ("fresh", "usual", "expected"),
    [
        ([116.0, 140.0], [100.0, 101.0, 99.0], True),
        ([130.0, 105.0], [100.0, 101.0, 99.0], False),
        ([130.0], 3 * [100.0] + 8 * [140.0], True),
        ([6.4], [4.0], False),
        ([7.5], [4.0], True),
        ([], [4.0], False),
        ([7.5], [], False),
    ],
)
def test_even_the_fastest_call_on_held_out_inputs_must_be_slower(
    fresh: list[float], usual: list[float], expected: bool
) -> None:
    assert suspicious(fresh, usual) is expected


def test_damage_is_noticed_only_where_reference_inputs_are_sealed() -> None:
    definition = problem("gelu_tanh")
    sums = CpuDevice().sums
    for sealed in (True, False):
        reference = ReferenceInputs(definition, definition.tiny, Drawing(1), "cpu", sums=sums if sealed else None)
        reference.inputs[0].view(-1)[3] += 1.0
        assert damaged([reference], sums) == ("inputs of reference inputs 0" if sealed else None)
