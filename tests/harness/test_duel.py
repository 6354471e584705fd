"""Verdicts on two kernels."""

from __future__ import annotations

import pytest

from kbench.harness.commands.compare import Comparison, confirmed
from kbench.harness.timing.duel import Verdict, decide
from kbench.harness.timing.interval import Interval
from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Backend, KernelSource


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
