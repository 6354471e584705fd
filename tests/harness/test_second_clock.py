"""Attribution of device work to calls by correlation id."""

from __future__ import annotations

import pytest

from kbench.harness.device.device import CpuDevice
from kbench.harness.timing.second_clock import CALLS, DeviceSpan, HostSpan, attribute, both_clocks_us, disagree


def test_work_belongs_to_the_call_whose_launch_has_its_correlation_id() -> None:
    calls = [HostSpan(0, 100), HostSpan(200, 300)]
    launches = [HostSpan(10, 20, 1), HostSpan(30, 40, 2), HostSpan(150, 160, 3), HostSpan(210, 220, 4)]
    # The device runs late: by its own clock the first call's work starts after the second call was made.
    work = [
        DeviceSpan(1_000_000, 1_004_000, 1),
        DeviceSpan(1_005_000, 1_009_000, 2),
        DeviceSpan(1_010_000, 1_090_000, 3),
        DeviceSpan(1_100_000, 1_107_000, 4),
    ]
    assert attribute(calls, launches, work) == [9.0, 7.0]


def test_work_of_no_call_gives_no_figure() -> None:
    assert attribute([HostSpan(0, 10)], [HostSpan(20, 30, 1)], [DeviceSpan(0, 5, 1)]) == []


def test_clocks_disagree_beyond_three_percent_or_an_absolute_bound_for_short_kernels() -> None:
    assert disagree(100.0, 94.0)
    assert disagree(100.0, 104.0)
    assert not disagree(5.0, 3.0)
    assert disagree(9.4, 4.0)
    assert disagree(9.4, 41.8)


def test_the_distance_of_the_marks_from_the_kernel_is_no_disagreement() -> None:
    assert not disagree(70.0, 67.4)
    assert not disagree(100.0, 100.0)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_both_clocks_time_the_same_calls_and_without_a_gpu_one_of_them_says_nothing() -> None:
    calls: list[int] = []
    cupti, events = both_clocks_us(calls.append, CpuDevice())
    assert calls == [number % 2 for number in range(CALLS)]
    assert cupti == []
    assert len(events) == CALLS
    assert min(events) > 0.0
