"""Second clock: kernel durations by CUPTI, through torch's profiler, as a check on the event timer.

A kernel on the device belongs to a call when the launch with the same correlation id was made inside that call on the
host. Host and device timestamps are never compared with each other. There is no fallback: when CUPTI gives nothing,
there is no second figure.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kbench.harness.device.device import Device

OnStage = Callable[[int], Any]
"""Does something on one of two sets of inputs."""
CALLS = 12
HOLD_US = 1_000.0
"""The stream is held at most this long for each call: the profiler slows launches down, and a gap between two launches
of one call would count as its time."""
CALL_MARK = "kbench_call"
BOUND = 0.03
"""Relative difference beyond which the clocks disagree, for kernels of at least `SHORT_US`."""
SHORT_US = 50.0
SHORT_BOUND_US = 1.5
"""For shorter kernels an absolute bound."""
MARK_GAP_US = 2.6
"""The event timer's marks lie this much further apart than a kernel's first and last instruction: the median over 41
kernels on an H200, whatever their length (docs/harness.md). Such a difference is not a disagreement."""


@dataclasses.dataclass(frozen=True, slots=True)
class HostSpan:
    """Something on the host, in nanoseconds: a call's span, or a launch with its correlation id."""

    start_ns: int
    end_ns: int
    correlation: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSpan:
    """Something on the device, with the correlation id of the launch that caused it."""

    start_ns: int
    end_ns: int
    correlation: int


def attribute(calls: Sequence[HostSpan], launches: Iterable[HostSpan], work: Iterable[DeviceSpan]) -> list[float]:
    """Device time of each call in microseconds, from its first kernel's start to its last one's end."""
    owner: dict[int, int] = {}
    for launch in launches:
        for number, call in enumerate(calls):
            if call.start_ns <= launch.start_ns and launch.end_ns <= call.end_ns:
                owner[launch.correlation] = number
                break
    spans: dict[int, list[DeviceSpan]] = {}
    for span in work:
        if span.correlation in owner:
            spans.setdefault(owner[span.correlation], []).append(span)
    return [(max(s.end_ns for s in mine) - min(s.start_ns for s in mine)) / 1e3 for _, mine in sorted(spans.items())]


def both_clocks_us(call: OnStage, device: Device, prepare: OnStage | None = None) -> tuple[list[float], list[float]]:
    """Device times of the same calls by CUPTI and by the event timer; nothing by CUPTI when it recorded no kernel."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        by_events = events_us(call, device, prepare)
    events = profiler.profiler.kineto_results.events() if profiler.profiler is not None else []
    return attribute(*sort_events(events)), by_events


def events_us(call: OnStage, device: Device, prepare: OnStage | None = None) -> list[float]:
    """Device times of some calls by the event timer, each call named for a profiler.

    Args:
        call: calls a kernel on a set of inputs.
        device: where.
        prepare: what precedes each call.
    """
    from torch.profiler import record_function

    marks = []
    device.hold(CALLS * HOLD_US)
    for number in range(CALLS):
        if prepare is not None:
            prepare(number % 2)
        device.flush()
        start = device.mark()
        with record_function(CALL_MARK):
            call(number % 2)
        marks.append((start, device.mark()))
    device.resume()
    device.synchronize()
    return [device.elapsed_us(start, end) for start, end in marks]


def sort_events(events: Iterable[Any]) -> tuple[list[HostSpan], list[HostSpan], list[DeviceSpan]]:
    """Kineto's events as calls, launches and device work."""
    calls, launches, work = [], [], []
    for event in events:
        start, end = event.start_ns(), event.start_ns() + event.duration_ns()
        if "CUDA" in str(event.device_type()):
            if event.name() != CALL_MARK:
                work.append(DeviceSpan(start, end, event.correlation_id()))
        elif event.name() == CALL_MARK:
            calls.append(HostSpan(start, end))
        elif event.name().startswith(("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cuMemset", "cuMemcpy")):
            launches.append(HostSpan(start, end, event.correlation_id()))
    return calls, launches, work


def disagree(event_us: float, second_us: float) -> bool:
    """Whether two clocks disagree."""
    bound = max(BOUND * event_us, SHORT_BOUND_US if event_us < SHORT_US else 0.0)
    gap = event_us - second_us
    return max(-gap, gap - MARK_GAP_US) > bound
