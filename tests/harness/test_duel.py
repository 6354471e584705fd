"""Verdicts on two kernels."""

from __future__ import annotations

import pytest

from kbench.harness.timing.duel import Verdict, decide
from kbench.harness.timing.interval import Interval


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
