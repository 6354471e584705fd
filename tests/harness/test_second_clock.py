"""Work on the device belongs to calls by correlation id, and what overlaps counts once."""

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest

from kbench.harness.timing.interval import log_interval, process_sigma
from kbench.harness.timing.second_clock import (
    CALL_MARK,
    NamedCalls,
    Profile,
    Span,
    covered_ns,
    disagree,
    profiling,
    slowdown_us,
)


def test_work_belongs_to_the_call_whose_launch_has_its_correlation_id() -> None:
    calls = [Span(200, 300, name="b"), Span(0, 100, name="a"), Span(400, 500, name="a"), Span(600, 700, name="none")]
    launches = [Span(10, 20, 1), Span(30, 40, 2), Span(150, 160, 3), Span(210, 220, 4), Span(410, 420, 5)]
    # The device runs late: by its own clock the first call's work starts after the second call was made.
    work = [
        Span(1_000_000, 1_004_000, 1),
        Span(1_005_000, 1_009_000, 2),
        Span(1_010_000, 1_090_000, 3),
        Span(1_100_000, 1_107_000, 4),
        Span(1_200_000, 1_202_000, 5),
    ]
    assert Profile(calls, launches, work).busy_us() == {"a": [8.0, 2.0], "b": [7.0]}


@pytest.mark.parametrize(
    ("spans", "busy_ns"),
    [([(0, 5), (7, 9)], 7), ([(0, 5), (3, 9)], 9), ([(0, 9), (3, 5)], 9), ([(3, 5), (0, 4)], 5), ([], 0)],
)
def test_time_in_which_work_overlaps_counts_once(spans: list[tuple[int, int]], busy_ns: int) -> None:
    assert covered_ns(Span(*span) for span in spans) == busy_ns


def test_clocks_disagree_when_the_device_was_busy_for_longer_than_recorded() -> None:
    assert disagree(20.0, 185.0)
    assert disagree(100.0, 106.0)
    assert not disagree(100.0, 104.0)
    # Marks lie further apart than a kernel's first and last instruction.
    assert not disagree(7.0, 4.4)


def test_what_the_profiler_adds_to_every_warp_does_not_count() -> None:
    # Of an honest kernel of 36,864 blocks of 32 warps on 132 multiprocessors: 139.67 us as timed.
    assert disagree(139.67, 149.44)
    assert not disagree(139.67, 149.44 - slowdown_us(36_864 * 32 / 132))


def event(name: str, device: str, start: int, end: int, correlation: int = 0) -> Any:
    """An event as Kineto has it."""
    return SimpleNamespace(
        name=lambda: name, device_type=lambda: device, start_ns=lambda: start, duration_ns=lambda: end - start,
        correlation_id=lambda: correlation,
    )  # fmt: skip


def test_events_of_the_profiler_are_calls_launches_and_work() -> None:
    profile = Profile()
    profile.add(
        [
            event(f"{CALL_MARK}0 small", "DeviceType.CPU", 0, 100),
            event("cuLaunchKernel", "DeviceType.CPU", 10, 20, 7),
            event("aten::add", "DeviceType.CPU", 30, 40, 8),
            event("my_kernel", "DeviceType.CUDA", 5_000, 9_000, 7),
            event(f"{CALL_MARK}0 small", "DeviceType.CUDA", 0, 9_000, 9),
        ]
    )
    assert profile.busy_us() == {"0 small": [4.0]}


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_calls_are_named_for_the_profiler_and_without_a_gpu_it_says_nothing() -> None:
    calls: list[int] = []
    with profiling() as profile:
        NamedCalls(SimpleNamespace(call=calls.append), "0 small").call(1)
    assert calls == [1]
    assert [call.name for call in profile.calls] == ["0 small"]
    assert profile.busy_us() == {}


def coverage(rho: float, rounds: int, trials: int = 1500) -> float:
    """Share of intervals that hold the true value for rounds correlated by rho."""
    rng = random.Random(1)
    inside = 0
    for _ in range(trials):
        value, logs = rng.gauss(0.0, 0.01), []
        for _ in range(rounds):
            logs.append(value)
            value = rho * value + math.sqrt(1 - rho**2) * rng.gauss(0.0, 0.01)
        found = log_interval(logs)
        inside += found.low <= 1.0 <= found.high
    return inside / trials


@pytest.mark.parametrize("rounds", [5, 8, 21])
def test_intervals_of_independent_rounds_cover_what_they_promise(rounds: int) -> None:
    assert 0.93 <= coverage(0.0, rounds) <= 0.995


def test_correlated_rounds_are_covered_far_better_than_a_plain_interval_would() -> None:
    assert coverage(0.5, 21) >= 0.88


def test_extra_spread_does_not_shrink_with_more_rounds() -> None:
    flat = [0.0] * 21
    assert log_interval(flat, 0.002).half_width == pytest.approx(0.00392, rel=0.01)


def test_the_spread_between_processes_grows_for_short_kernels() -> None:
    assert process_sigma(2.0) > 3 * process_sigma(200.0)
