"""Audits: what timed calls are shown, what is judged of them, and who is rejected for keeping answers."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kbench.benchmark.problems import problem
from kbench.harness.audit import LOOKS, ROUNDS, Auditor, pick, suspicious
from kbench.harness.context import ProblemContext
from kbench.harness.device import CpuDevice
from kbench.harness.master import Master
from kbench.harness.timing.batch import Sample, Sampler
from kbench.harness.timing.rounds import Candidate, Plan, make_slots
from kbench.harness.verify import Verdict
from kbench.schemas import Status

LOOK = Plan(4, 0, (5,))


@pytest.fixture
def context() -> ProblemContext:
    definition = problem("gelu_tanh")
    made = ProblemContext(definition, definition.tiny, CpuDevice(), (1, 2, 3))
    for stage in made.stages:
        stage.reset(made.masters[0])
    return made


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


def candidate(auditor: Auditor, run: Callable[..., Any]) -> Candidate:
    return auditor.candidate("k", SimpleNamespace(run=run))  # type: ignore[arg-type]


def look(kernel: Candidate, context: ProblemContext, seed: int = 0) -> list[Sample]:
    return Sampler(context.device).run(make_slots([kernel], context, range(5), LOOK, random.Random(seed)))


def fingerprint(x: torch.Tensor) -> tuple[float, ...]:
    return tuple(x.view(-1)[:4].tolist())


def test_every_look_shows_inputs_nobody_has_seen(context: ProblemContext) -> None:
    known = {fingerprint(master.inputs[0]) for master in context.masters}
    seen: list[tuple[float, ...]] = []

    def run(x: torch.Tensor) -> torch.Tensor:
        seen.append(fingerprint(x))
        return gelu(x)

    auditor = Auditor(context, Verdict())
    kernel = candidate(auditor, run)
    for number in range(4):
        seen_before = set(seen)
        samples = look(kernel, context, number)
        assert auditor.judge(samples)
        strangers = set(seen) - seen_before - known
        assert len(strangers) == 1, "one stranger a look"
        fresh = [s.kept for s in samples if s.kept is not None and s.kept.fresh]
        assert fingerprint(fresh[0].master.inputs[0]) in strangers | known
        assert not any(kept.master.answered for kept in fresh if kept.master not in context.masters)


def test_a_wrong_answer_for_a_stranger_is_found(context: ProblemContext) -> None:
    known = {fingerprint(master.inputs[0]) for master in context.masters}
    auditor = Auditor(context, Verdict())
    kernel = candidate(auditor, lambda x: gelu(x) if fingerprint(x) in known else torch.zeros_like(x))
    judged = [auditor.judge(look(kernel, context, number)) for number in range(2)]
    assert not all(judged)
    assert auditor.verdict.status is Status.INCORRECT


def test_what_the_buffers_hold_is_not_shown_and_the_unseen_comes_first(context: ProblemContext) -> None:
    choices = [*context.masters, context.stranger()]
    shown = weakref.WeakSet(choices[:2])
    for choice in range(2):
        master, fresh = pick(choices, choices[0], shown, choice)
        assert fresh
        assert master in choices[2:]
    assert set(shown) == set(choices)
    for choice in range(20):
        master, fresh = pick(choices, choices[1], shown, choice)
        assert not fresh
        assert master is not choices[1]


def honest(calls: list[int]) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        time.sleep(0.002)
        return gelu(x)

    return run


def slow_when_new(
    seconds: float, kept: dict[tuple[float, ...], torch.Tensor]
) -> Callable[[torch.Tensor], torch.Tensor]:
    def run(x: torch.Tensor) -> torch.Tensor:
        key = fingerprint(x)
        if key not in kept:
            time.sleep(seconds)
            kept[key] = gelu(x)
        return kept[key].clone()

    return run


def test_a_kernel_that_keeps_answers_by_contents_is_rejected(context: ProblemContext) -> None:
    auditor, rng = Auditor(context, Verdict()), random.Random(1)
    run = slow_when_new(0.01, {})
    for at in (0, 1):
        run(context.masters[at].inputs[0])
    kernel = candidate(auditor, run)
    assert auditor.judge(look(kernel, context))
    auditor.confirm(kernel, Sampler(context.device), rng)
    assert auditor.verdict.status is Status.REJECTED
    assert auditor.verdict.reason is not None
    assert "it has not been shown" in auditor.verdict.reason


def test_answers_are_found_that_do_not_survive_the_drawing_of_inputs(
    context: ProblemContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[float, ...], torch.Tensor] = {}
    draw = context.definition.draw

    def draw_over_what_is_kept(*arguments: Any) -> Any:
        kept.clear()
        return draw(*arguments)

    auditor = Auditor(context, Verdict())
    kernel = candidate(auditor, slow_when_new(0.01, kept))
    monkeypatch.setattr(
        ProblemContext,
        "stranger",
        lambda self: Master(self.definition, draw_over_what_is_kept(self.definition.tiny, random.randrange(1 << 30))),
    )
    assert auditor.judge(look(kernel, context))
    auditor.confirm(kernel, Sampler(context.device), random.Random(1))
    assert auditor.verdict.status is Status.REJECTED


def test_a_suspicion_that_more_rounds_do_not_confirm_is_dropped(context: ProblemContext) -> None:
    auditor, calls = Auditor(context, Verdict()), [0]
    kernel = candidate(auditor, honest(calls))
    samples = look(kernel, context)
    for sample in samples:
        held_up = sample.kept is not None and sample.kept.fresh
        auditor.judge([Sample("k", sample.round, 1e5 if held_up else sample.time_us, False, sample.kept)])
    before = calls[0]
    auditor.confirm(kernel, Sampler(context.device), random.Random(1))
    assert calls[0] == before + 3 * ROUNDS * LOOKS, "calls of 2 ms: three a round"
    assert auditor.verdict.ok


def test_a_kernel_without_suspicion_is_not_called_again(context: ProblemContext) -> None:
    auditor, calls = Auditor(context, Verdict()), [0]
    kernel = candidate(auditor, honest(calls))
    assert auditor.judge(look(kernel, context))
    before = calls[0]
    auditor.confirm(kernel, Sampler(context.device), random.Random(1))
    assert calls[0] == before
    assert auditor.verdict.ok


@pytest.mark.parametrize(
    ("fresh", "usual", "expected"),
    [
        ([130.0, 140.0], [100.0, 101.0, 99.0], True),
        ([130.0, 105.0], [100.0, 101.0, 99.0], False),
        ([130.0], 3 * [100.0] + 8 * [140.0], True),
        ([6.5], [4.0], False),
        ([7.5], [4.0], True),
        ([], [4.0], False),
        ([7.5], [], False),
    ],
)
def test_even_the_fastest_call_on_strangers_must_be_slower(
    fresh: list[float], usual: list[float], expected: bool
) -> None:
    assert suspicious(fresh, usual) is expected


def test_damage_is_noticed_only_where_a_master_is_sealed() -> None:
    definition = problem("gelu_tanh")
    for sealed in (True, False):
        master = Master(definition, definition.draw(definition.tiny, 1), sealed=sealed)
        master.inputs[0].view(-1)[3] += 1.0
        assert master.damaged() == ("inputs" if sealed else None)
