"""Second clock: how long the device was busy with a call according to CUPTI, through torch's profiler.

A kernel on the device belongs to a call when the launch with the same correlation id was made inside that call on the
host. Host and device timestamps are never compared with each other. Time between the launches of one call does not
count: the profiler makes the host late. There is no fallback: when CUPTI gives nothing, there is no second figure.
"""

from __future__ import annotations

import bisect
import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

CALL_MARK = "kbench_call "
"""Begins the name of a call for the profiler."""
BOUND = 0.05
"""How much longer than recorded a call may be by CUPTI, as a share. There is more room than that: the event timer's
marks lie 2.6 us further apart than a kernel's first and last instruction, whatever its length (docs/harness.md)."""
WARP_NS = 1.3
"""What CUPTI adds to the time that a multiprocessor takes to start a warp, on an H200: a kernel of many small blocks,
which does little but start them, takes 4 to 9 % longer under it (docs/results/clock.md)."""
SecondTimes = Mapping[str, float] | str
"""Times of a kernel by the profiler: microseconds by workload, or why there are none."""
LAUNCHES = ("cudaLaunch", "cuLaunch", "cudaMemcpy", "cudaMemset", "cuMemset", "cuMemcpy")


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """A call or launch on the host, or work on the device, in nanoseconds of its own clock."""

    start_ns: int
    end_ns: int
    correlation: int = 0
    """The id that a launch and the work it causes have in common."""
    name: str = ""
    """Of a call."""


@dataclasses.dataclass(slots=True)
class Profile:
    """The calls, launches and work that the profiler saw."""

    calls: list[Span] = dataclasses.field(default_factory=list)
    launches: list[Span] = dataclasses.field(default_factory=list)
    work: list[Span] = dataclasses.field(default_factory=list)

    def add(self, events: Iterable[Any]) -> None:
        """Take in Kineto's events."""
        for event in events:
            start, end, name = event.start_ns(), event.start_ns() + event.duration_ns(), event.name()
            if "CUDA" in str(event.device_type()):
                if not name.startswith(CALL_MARK):
                    self.work.append(Span(start, end, event.correlation_id()))
            elif name.startswith(CALL_MARK):
                self.calls.append(Span(start, end, name=name.removeprefix(CALL_MARK)))
            elif name.startswith(LAUNCHES):
                self.launches.append(Span(start, end, event.correlation_id()))

    def busy_us(self) -> dict[str, list[float]]:
        """How long the device was busy with each call, by the calls' names; nothing of calls without any work."""
        calls = sorted(self.calls, key=lambda call: call.start_ns)
        starts = [call.start_ns for call in calls]
        owner: dict[int, int] = {}
        for launch in self.launches:
            at = bisect.bisect_right(starts, launch.start_ns) - 1
            if at >= 0 and launch.end_ns <= calls[at].end_ns:
                owner[launch.correlation] = at
        spans: defaultdict[int, list[Span]] = defaultdict(list)
        for span in self.work:
            if span.correlation in owner:
                spans[owner[span.correlation]].append(span)
        times_us: defaultdict[str, list[float]] = defaultdict(list)
        for at in sorted(spans):
            times_us[calls[at].name].append(covered_ns(spans[at]) / 1e3)
        return dict(times_us)


def covered_ns(spans: Iterable[Span]) -> int:
    """Time in which any of some spans is running: those of one call may overlap."""
    total, until = 0, 0
    for span in sorted(spans, key=lambda span: span.start_ns):
        total += max(0, span.end_ns - max(span.start_ns, until))
        until = max(until, span.end_ns)
    return total


@contextmanager
def profiling() -> Iterator[Profile]:
    """Profile what is done meanwhile; what was seen is known at the end."""
    from torch.profiler import ProfilerActivity, profile

    seen = Profile()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True) as profiler:
        yield seen
    if profiler.profiler is not None:
        seen.add(profiler.profiler.kineto_results.events())


class NamedCalls:
    """A subject whose calls have a name for the profiler."""

    def __init__(self, subject: Any, name: str) -> None:
        """Name the calls of a subject."""
        self._subject, self._name = subject, CALL_MARK + name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def call(self, set_number: int) -> Any:
        """Call it."""
        from torch.profiler import record_function

        with record_function(self._name):
            return self._subject.call(set_number)


def slowdown_us(warps: float) -> float:
    """How much longer a call of so many warps on each multiprocessor takes because the profiler looks."""
    return WARP_NS * warps / 1e3


def disagree(recorded_us: float, second_us: float) -> bool:
    """Whether a kernel kept the device busy for longer than its recorded time."""
    return second_us > (1.0 + BOUND) * recorded_us


def contradiction(recorded_us: float, workload: str, seconds: SecondTimes) -> str | None:
    """Why a time is not believed once the profiler was asked; None when it is."""
    second_us = None if isinstance(seconds, str) else seconds.get(workload)
    if second_us is None:
        return f"not seen by the profiler: {seconds if isinstance(seconds, str) else workload}"
    if not disagree(recorded_us, second_us):
        return None
    return f"two clocks disagree: {recorded_us:.2f} us as timed, {second_us:.2f} us by the profiler"
