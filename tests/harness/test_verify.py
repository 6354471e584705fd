"""Verification on the CPU: what is caught, and by which words."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.bench.context import (
    GUARD_BYTE,
    MANY_SETS,
    SETS,
    Buffers,
    ContextCache,
    Guarded,
    ProblemContext,
    check_claims,
    first_failure,
)
from kbench.harness.bench.judge import LocalJudge
from kbench.harness.bench.reference_inputs import Drawing
from kbench.harness.bench.subject import ProcessSubject
from kbench.harness.device.device import POISON_BYTE, CpuDevice
from kbench.harness.verify import UNAIDED_CALL, Verdict, verify, verify_repeat, verify_together
from kbench.schemas import Status


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def judged(run: Callable[..., Any], context: ProblemContext) -> Verdict:
    return verify(ProcessSubject(run, context), context, Verdict(), context.references[:2])


def test_a_correct_kernel_is_ok_with_its_errors_noted(context: ProblemContext) -> None:
    found = judged(gelu, context)
    assert found.ok
    assert 0.0 < found.max_abs_error < 1e-5


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x: x, "memory of an input"),
        (lambda x: gelu(x).double(), "float64"),
        (lambda x: gelu(x)[:3], "[3, 33]"),
        (lambda x: gelu(x).t().contiguous().t(), "not contiguous"),
        (lambda x: (gelu(x), gelu(x)), "2 outputs, expected 1"),
        (lambda x: "text", "returned a str"),
        (lambda x: gelu(x) + 1e-3, "beyond tolerance"),
        (lambda x: x.zero_() + gelu(x), "was modified"),
    ],
)
def test_a_wrong_kernel_is_told_what_is_wrong(context: ProblemContext, run: Callable[..., Any], words: str) -> None:
    found = judged(run, context)
    assert found.status is Status.INCORRECT
    assert words in str(found.reason)


def test_calls_that_differ_are_nondeterministic(context: ProblemContext) -> None:
    calls = [0]

    def run(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return gelu(x) + (0.0 if calls[0] == 1 else 0.1)

    assert judged(run, context).status is Status.NONDETERMINISTIC


def intact(guarded: Guarded) -> bool:
    return all(bool((guard == GUARD_BYTE).all()) for guard in guarded.guards)


def test_calls_on_adversarial_inputs_may_differ_by_what_counts_as_correct_there() -> None:
    definition = problem("matmul_square")
    made = ProblemContext(definition, definition.tiny, CpuDevice(), (1, 2, 3))
    large = next(one for one in made.adversarial() if one.drawing.case == "large")
    first = made.definition.reference(*large.inputs)
    off = first + 100 * definition.tolerance.atol
    verify_repeat(made, [(large, (first,)), (large, (off,))], verdict := Verdict())
    assert verdict.ok
    usual = made.references[0]
    first = made.definition.reference(*usual.inputs)
    verify_repeat(made, [(usual, (first,)), (usual, (first + 1.0,))], verdict)
    assert verdict.status is Status.NONDETERMINISTIC


def test_guards_notice_a_write_on_either_side() -> None:
    for offset in (-1, 10):
        guarded = Guarded(torch.zeros(10))
        assert intact(guarded)
        torch.as_strided(guarded.tensor, (1,), (1,), guarded.tensor.storage_offset() + offset).fill_(7.0)
        assert not intact(guarded)


def test_a_stage_hands_out_the_same_memory_with_other_numbers(context: ProblemContext) -> None:
    buffers = Buffers(context.references[0].inputs)
    buffers.fill(context.references[0])
    first = buffers.inputs[0]
    address, kept = first.data_ptr(), first.clone()
    buffers.fill(context.references[1])
    assert buffers.inputs[0].data_ptr() == address
    assert not torch.equal(buffers.inputs[0], kept)
    assert buffers.inputs[0] is not first


def test_damage_to_reference_inputs_or_an_answer_is_noticed_and_repaired() -> None:
    cache = ContextCache(CpuDevice(), 1 << 30, (1, 2, 3))
    size = problem("gelu_tanh").tiny
    context = cache.get("gelu_tanh", size)
    answer = context.references[1].expected()
    assert context.corrupted() is None
    assert cache.get("gelu_tanh", size) is context
    answer[0].view(-1)[5] += 1.0
    assert context.corrupted() == "answer of reference inputs 1"
    assert cache.get("gelu_tanh", size) is not context


def test_a_kernel_that_needs_the_memory_gets_that_of_other_problems() -> None:
    cache = ContextCache(CpuDevice(), 1 << 30, (1, 2, 3))
    other, mine = cache.get("relu", problem("relu").tiny), cache.get("gelu_tanh", problem("gelu_tanh").tiny)
    cache.keep_only(mine)
    assert cache.get("gelu_tanh", problem("gelu_tanh").tiny) is mine
    assert cache.get("relu", problem("relu").tiny) is not other


def test_a_kernel_gets_clean_buffers_whatever_the_last_one_did_to_them() -> None:
    cache = ContextCache(CpuDevice(), 1 << 30, (1, 2, 3))
    size = problem("gelu_tanh").tiny
    context = cache.get("gelu_tanh", size)
    assert len(context.sets) == MANY_SETS > SETS
    for buffers in context.sets:
        buffers.inputs[0].fill_(7.0)
        guarded = buffers._guarded[0]
        guarded._block.fill_(0)
    assert first_failure(check_claims(context.device, context.sets[-1].claims())) is not None
    assert cache.get("gelu_tanh", size) is context
    checks = [check_claims(context.device, buffers.claims()) for buffers in context.sets]
    assert [first_failure(each) for each in checks] == [None] * MANY_SETS


def test_held_out_inputs_are_those_whose_answer_is_being_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    foreseen: list[Drawing] = []
    monkeypatch.setattr(LocalJudge, "foresee", lambda self, definition, size, drawings: foreseen.extend(drawings))
    context = ProblemContext(problem("gelu_tanh"), problem("gelu_tanh").tiny, CpuDevice(), (1, 2, 3))
    foreseen.clear()
    context.foresee_held_out()
    drawn = [context.held_out().drawing for _ in range(3)]
    assert foreseen == drawn[:1]
    assert len(set(drawn)) == 3


class Owned(ProcessSubject):
    """A kernel that finds what the harness left: a byte of scratch memory, and a variable that counts its calls."""

    owned = True

    def __init__(self, run: Callable[[torch.Tensor, int, int], torch.Tensor], context: ProblemContext) -> None:
        super().__init__(lambda x: (run(x, self.byte, self.calls),), context)
        self.byte = self.calls = 0

    def prepare(self, set_number: int, *, poison: bool = False, restore: bool = True) -> None:
        self.byte = POISON_BYTE if poison else 7
        self.calls = 0 if restore else self.calls

    def call(self, set_number: int) -> Any:
        returned = super().call(set_number)
        self.calls += 1
        return returned


def verified(subject: ProcessSubject, context: ProblemContext) -> Verdict:
    """The verdict on drawn and adversarial inputs."""
    return verify_together(subject, context, Verdict(), [*context.references[:2], *context.adversarial()])


@pytest.mark.parametrize(
    ("run", "fine"),
    [
        (lambda x, byte, calls: gelu(x), True),
        (lambda x, byte, calls: gelu(x) + (byte != POISON_BYTE), False),
        (lambda x, byte, calls: gelu(x) + calls, False),
    ],
    ids=["relies on nothing", "relies on poison", "relies on variables being reset"],
)
def test_a_kernel_may_not_rely_on_what_the_harness_does_between_calls(
    context: ProblemContext, run: Callable[[torch.Tensor, int, int], torch.Tensor], fine: bool
) -> None:
    found = verified(Owned(run, context), context)
    assert found.status is (Status.OK if fine else Status.INCORRECT)
    assert fine or str(found.reason).startswith(f"{UNAIDED_CALL}tiny")


def test_adversarial_calls_of_verification_find_the_bytes_that_timed_calls_find(context: ProblemContext) -> None:
    found: list[int] = []
    subject = Owned(lambda x, byte, calls: (found.append(byte), gelu(x))[1], context)
    assert verified(subject, context).ok
    assert len(found) > 5
    assert found == [POISON_BYTE] * 2 + [7] * (len(found) - 2)


def test_adversarial_calls_of_verification_use_all_sets_of_buffers(context: ProblemContext) -> None:
    used: list[int] = []
    copies: set[int] = set()

    class Noting(Owned):
        def call(self, set_number: int) -> Any:
            held = context.sets[set_number].holds
            if held is not None and held.drawing.case is not None:
                copies.add(sum(one.holds is held for one in context.sets))
            used.append(set_number)
            return super().call(set_number)

    for _ in range(20):
        subject = Noting(lambda x, byte, calls: gelu(x), context)
        assert verified(subject, context).ok
    each = len(used) // 20
    assert all(used[at * each : at * each + 3] == [0, 1, 0] for at in range(20))
    assert set(used) == set(range(MANY_SETS))
    # In how many sets inputs lie tells a kernel nothing.
    assert copies == set(range(1, MANY_SETS + 1))


def test_the_cache_is_flushed_before_every_call_of_verification_as_before_timed_ones(
    context: ProblemContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    subject = Owned(lambda x, byte, calls: (steps.append("call"), gelu(x))[1], context)
    monkeypatch.setattr(CpuDevice, "flush", lambda self: steps.append("flush"))
    fill = Buffers.fill
    monkeypatch.setattr(Buffers, "fill", lambda self, reference: (steps.append("fill"), fill(self, reference)))
    assert verified(subject, context).ok
    calls = 3 + len(context.case_drawings)
    assert [step for step, _ in itertools.groupby(steps)] == ["fill", "flush", "call"] * calls


def test_outputs_that_are_never_written_are_incorrect_not_nondeterministic(context: ProblemContext) -> None:
    owned = Owned(lambda x, byte, calls: torch.full_like(x, float("nan") if byte == POISON_BYTE else byte), context)
    found = verify_together(owned, context, Verdict(), context.references[:2])
    assert found.status is Status.INCORRECT
    assert str(found.reason).startswith("tiny: ")
