"""The roofline floor."""

from __future__ import annotations

import pytest

from kbench.benchmark.problems import problem
from kbench.harness.device.floor import MARGIN, Ceilings, floor_us, implausible

CEILINGS = Ceilings(4300.0, 4400.0, 790.0, 32.0, 60 << 20)


def test_a_memory_bound_problem_is_bounded_by_what_cannot_stay_in_the_cache() -> None:
    definition = problem("gelu_tanh")
    size = definition.sizes[0]
    nbytes = definition.count_bytes(size.params)
    expected = MARGIN * (nbytes - CEILINGS.l2_bytes) / 4400e3
    assert floor_us(definition, size, CEILINGS) == pytest.approx(expected)


def test_a_time_below_the_floor_is_refused_with_both_figures() -> None:
    reason = implausible(10.0, 50.0)
    assert reason is not None
    assert "10.00 us" in reason
    assert "50.00 us" in reason
    assert implausible(50.0, 50.0) is None
