"""Timing any function: on a clockwork stream, where every time is known."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from clockwork import Clockwork

import kbench
from kbench.harness import callables
from kbench.harness.callables import Stopwatch, sparkline
from kbench.harness.commands.compare import Comparison, confirmed
from kbench.harness.harness import Harness
from kbench.harness.timing.duel import LOOKS, Verdict, decide
from kbench.harness.timing.interval import Interval
from kbench.harness.timing.rounds import TimingSettings
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Backend, InfrastructureError, KbenchError, KernelSource, UserError

SETTINGS = TimingSettings(half_width=0.005, looks=LOOKS, budget_us=250_000.0)
GAP_US, NULL_US = 1.0, 2.0


class Stream(Clockwork):
    """Marks lie a microsecond apart, and an empty kernel takes two."""

    fenced, model = False, "a clockwork"

    def __init__(self, *, behind: bool = False) -> None:
        self.flushes, self.behind = 0, behind

    def nothing(self) -> None:
        self.now_us += NULL_US

    def flush(self) -> None:
        super().flush()
        self.flushes += 1

    def passed(self, mark: float) -> bool:
        return self.behind


def watch(device: Stream) -> Stopwatch:
    return Stopwatch(device, random.Random(3))


@pytest.mark.parametrize("time_us", [5.0, 30.0, 400.0, 3_000.0])
def test_every_call_is_cold_and_the_figure_is_the_time_between_its_marks(time_us: float) -> None:
    device, rng = Stream(), random.Random(1)
    found = watch(device).bench({"f": device.working(time_us, lambda: rng.gauss(0.0, 0.01))}, SETTINGS)
    assert found.low_us < time_us + GAP_US < found.high_us
    assert found.half_width < 0.05
    assert device.flushes > len(found.samples_us)
    assert not found.exposed
    assert repr(found).startswith(f"f  {found.time_us:.4g} µs" if time_us < 1e3 else f"f  {found.time_us / 1e3:.4g} ms")
    assert "<td>f</td>" in found._repr_html_()


def test_a_function_whose_launch_cannot_be_hidden_says_so() -> None:
    device = Stream(behind=True)
    found = watch(device).bench({"f": device.working(10.0)}, SETTINGS)
    assert found.exposed
    assert "host time is included" in repr(found)


@pytest.mark.parametrize(
    ("mine_us", "noise", "verdict"),
    [
        (90.0, 0.01, Verdict.FASTER),
        (110.0, 0.01, Verdict.SLOWER),
        (100.0, 0.001, Verdict.SAME),
        (100.0, 0.2, Verdict.UNDECIDED),
    ],
)
def test_a_duel_is_about_the_first_function(mine_us: float, noise: float, verdict: Verdict) -> None:
    device, rng = Stream(), random.Random(2)
    times = {"mine": mine_us, "theirs": 100.0}
    calls = {name: device.working(time_us, lambda: rng.gauss(0.0, noise)) for name, time_us in times.items()}
    found = watch(device).duel(calls, 0.01, SETTINGS)
    assert found.verdict is verdict
    assert len({len(one.samples_us) for one in found.timed}) == 1, "both are called in every round"
    assert verdict.value in repr(found)
    assert verdict.value in found._repr_html_()
    (against,) = found.against
    assert against.name == "theirs"
    assert (against.ratio.value > 1.0) == (verdict is Verdict.FASTER) or verdict in (Verdict.SAME, Verdict.UNDECIDED)


def test_drift_that_hits_both_functions_alike_leaves_the_verdict_alone() -> None:
    device, calls_made = Stream(), iter(range(10**6))
    drifting = lambda: 0.0005 * next(calls_made)  # noqa: E731 - a clock that slows down all the time
    calls = {name: device.working(t, drifting) for name, t in {"mine": 98.0, "theirs": 100.0}.items()}
    found = watch(device).duel(calls, 0.01, SETTINGS)
    assert found.against[0].ratio.low < 100.0 / 98.0 < found.against[0].ratio.high


def test_a_function_that_queues_nothing_is_refused() -> None:
    device = Stream()
    with pytest.raises(UserError, match="'idle' queues no work on torch's current stream"):
        watch(device).bench({"idle": lambda: None}, SETTINGS)


@pytest.fixture
def on_clockwork(monkeypatch: pytest.MonkeyPatch) -> Stream:
    device = Stream()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 0}))
    monkeypatch.setattr(callables, "_stopwatch_on", lambda index, stream: watch(device))
    return device


def _raises(*_: Any) -> None:
    raise RuntimeError("no such\nshape")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda work: kbench.bench(_raises), "'_raises' raises RuntimeError: no such shape"),
        (lambda work: kbench.bench(lambda x: None, torch.ones(2)), "'<lambda>' queues no work"),
        (lambda work: kbench.bench(3), "'int' is int, which cannot be called"),  # type: ignore[arg-type]
        (lambda work: kbench.bench(work, torch.tensor([1.0, float("nan")])), "argument 0 holds NaN"),
        (lambda work: kbench.duel({"mine": work}), "duel has 1 functions; give two or more"),
        (lambda work: kbench.duel({"mine": work, "theirs": _raises}), "'theirs' raises RuntimeError"),
    ],
    ids=["raises", "returns nothing", "no function", "nan", "alone", "rival raises"],
)
def test_bad_input_is_one_line_with_the_exit_code_of_a_users_mistake(
    act: Callable[[Any], Any], message: str, on_clockwork: Clockwork
) -> None:
    with pytest.raises(KbenchError, match=message) as caught:
        act(lambda *_: on_clockwork.work(10.0))
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_the_public_names_time_a_function_with_its_arguments(on_clockwork: Stream) -> None:
    seen: list[Any] = []

    def scale(x: torch.Tensor, factor: int) -> None:
        seen.append((x, factor))
        on_clockwork.work(10.0)

    found = kbench.bench(scale, torch.ones(2), 3)
    assert found.name == "scale"
    assert all(factor == 3 for _, factor in seen)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens where there is no GPU")
@pytest.mark.parametrize("act", [lambda: kbench.bench(lambda: None), lambda: Harness(gpu=0).open()])
def test_without_a_gpu_it_says_so(act: Callable[[], object]) -> None:
    with pytest.raises(InfrastructureError, match="no NVIDIA GPU found, so nothing can be timed"):
        act()


def test_a_sparkline_is_tallest_where_most_values_are() -> None:
    assert sparkline([1.0, 2.0, 2.0, 2.0, 3.0], columns=3) == "▃█▃"
    assert sparkline([5.0, 5.0], columns=2) == "█▁"


@pytest.mark.gpu
def test_on_a_gpu_a_copy_is_as_fast_as_itself_and_faster_than_two() -> None:
    x = torch.randn(1 << 22, device="cuda")
    y = torch.empty_like(x)
    once, twice = lambda: y.copy_(x), lambda: (y.copy_(x), y.copy_(x))
    assert kbench.duel({"once": once, "again": lambda: y.copy_(x)}).verdict is Verdict.SAME
    found = kbench.duel({"once": once, "twice": twice})
    assert found.verdict is Verdict.FASTER
    assert not found.timed[0].exposed
    with pytest.raises(UserError, match="queues no work"):
        kbench.bench(lambda: None)


@pytest.mark.parametrize(
    ("low", "value", "high", "verdict"),
    [
        (1.02, 1.03, 1.04, Verdict.FASTER),
        (0.96, 0.97, 0.98, Verdict.SLOWER),
        (0.995, 1.0, 1.005, Verdict.SAME),
        (0.99, 1.01, 1.03, Verdict.UNDECIDED),
        (1.005, 1.02, 1.03, Verdict.UNDECIDED),
    ],
)
def test_a_verdict_needs_the_whole_interval_on_one_side(
    low: float, value: float, high: float, verdict: Verdict
) -> None:
    found = decide(Interval(value, low, high), threshold=0.01)
    assert found.verdict is verdict
    assert f"{value:.4f}" in found.reason


PAIR = (KernelSource("gelu_tanh", Backend.CUDA, "one"), KernelSource("gelu_tanh", Backend.CUDA, "two"))
ONE, TWO = (kernel.kernel_id for kernel in PAIR)


@pytest.mark.parametrize(
    ("verdict", "seconds", "kept"),
    [
        (Verdict.FASTER, {TWO: {"small": 17.5}}, True),
        (Verdict.FASTER, {TWO: {"small": 185.0}}, False),
        (Verdict.FASTER, {TWO: "timeout: took longer than 10 s"}, False),
        (Verdict.FASTER, {TWO: {"large": 17.5}}, False),
        (Verdict.SLOWER, {ONE: {"small": 38.0}, TWO: {"small": 185.0}}, True),
        (Verdict.SLOWER, {ONE: {"small": 60.0}}, False),
        (Verdict.SAME, {ONE: {"small": 185.0}}, True),
        (Verdict.FASTER, {}, True),
    ],
)
def test_what_is_faster_must_be_so_by_the_profiler(
    verdict: Verdict, seconds: dict[str, SecondTimes], kept: bool
) -> None:
    found = Comparison("small", verdict, "why", 2.0, 1.9, 2.1, 8, first_us=40.0, second_us=20.0)
    after = confirmed(found, PAIR, seconds)
    assert (after == found) is kept
    assert kept or (after.verdict is Verdict.UNDECIDED and "profiler" in after.reason)
