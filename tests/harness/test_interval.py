"""Intervals: their width, their coverage, and what autocorrelation does to them."""

from __future__ import annotations

import math
import random

import pytest

from kbench.harness.timing.interval import inflation, lag_one_correlation, log_interval, process_sigma


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


def test_correlation_of_an_alternating_series_is_negative_and_not_rewarded() -> None:
    values = [0.0, 1.0] * 6
    assert lag_one_correlation(values) < 0
    assert inflation(values) == 1.0


def test_the_spread_between_processes_grows_for_short_kernels() -> None:
    assert process_sigma(2.0) > 3 * process_sigma(200.0)
