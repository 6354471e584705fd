"""Callables: how long any function takes on the GPU, and whether it is faster than another.

    kbench.bench(f, x)
    kbench.duel({"mine": f, "theirs": g}, x)

Calls are timed as the harness times kernels: queued behind a hold, so that the host's launches are not counted, each
after a flush of the L2, between two marks whose distance an empty kernel in the same batch calibrates. The function
runs in this process and nothing is verified: a figure says how long it takes, not that its answer is correct.
"""

from __future__ import annotations

import dataclasses
import functools
import html
import math
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kbench.harness.device.device import NO_GPU, CudaDevice, Device
from kbench.harness.timing.batch import Sample, Sampler, Slot
from kbench.harness.timing.duel import LOOKS as DUEL_LOOKS
from kbench.harness.timing.duel import Decision, Verdict, decide, summarise_duel
from kbench.harness.timing.duel import Duel as Rivalry
from kbench.harness.timing.interval import Interval, centre, log_interval, process_sigma
from kbench.harness.timing.rounds import RoundPlan, TimingSettings, best_samples, by_round, plan
from kbench.harness.timing.stamps import NULL_KERNEL
from kbench.schemas import InfrastructureError, MissingDependencyError, UserError

Call = Callable[[], Any]
Calls = Mapping[str, Call]
NO_CALL = "no call"
PROBES, PROBED_US = 12, 20_000.0
"""Calls of each function, of the empty kernel and of nothing, from which the rounds are planned: so many, or two and
more within that time."""
NULL_SHARE = 4
"""Calls of a function in a batch per call of the empty kernel, whose time must be known better than theirs."""
QUEUED_US = 4_000.0
"""Host time that one batch may take to queue: the driver's queue holds about a thousand launches, and a host that fills
it waits for the stream that waits for the host."""
LOOKS = (8, 13, 21, 34, 55, 89)
"""Rounds after which a single function's interval is looked at."""
WARM_S, MOST_WARM_S = 0.1, 1.0
"""Seconds of calls before the first that counts, and at most. The clocks of an idle GPU rise over a tenth of a second;
those of a busy one fall to what its power allows for these calls, which a few calls do not show."""
STEADY, STEADY_TURNS = 0.01, 3
"""Relative change between two turns of the warm-up, and how many such changes in a row, that mean a steady state."""
BARS = "▁▂▃▄▅▆▇█"


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Timed:
    """How long a function takes on a GPU, with the 95 % interval that another process's figure should lie in."""

    name: str
    time_us: float
    low_us: float
    high_us: float
    samples_us: tuple[float, ...]
    """Every timed call, in order, as the marks say; the figure is corrected by the empty kernel."""
    rounds: int
    device: str
    exposed: bool
    """Host time is part of the figure: the function waits for the GPU, or launches more than a queue holds."""

    @property
    def half_width(self) -> float:
        """Half the interval's width, relative to the figure."""
        return (self.high_us - self.low_us) / (2.0 * self.time_us)

    def __repr__(self) -> str:
        figure = f"{self.name}  {_time(self.time_us)} ±{100 * self.half_width:.1f} %"
        return f"{figure}   {sparkline(self.samples_us)}   {self._method()}"

    def _repr_html_(self) -> str:
        return _table([self]) + f"<small>{html.escape(self._method())}</small>"

    def _method(self) -> str:
        method = f"{len(self.samples_us)} cold calls in {self.rounds} rounds on {self.device}"
        return f"{method}; host time is included, its launches cannot be queued ahead" if self.exposed else method


@dataclasses.dataclass(frozen=True, slots=True)
class Against:
    """What the rounds say about the first function relative to another."""

    name: str
    """The other function."""
    verdict: Verdict
    ratio: Interval
    """Time of the other over time of the first: above 1 when the first is faster."""
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Duel:
    """Several functions in the same rounds; verdicts are about the first."""

    timed: tuple[Timed, ...]
    against: tuple[Against, ...]

    @property
    def verdict(self) -> Verdict:
        """The first function against the second."""
        return self.against[0].verdict

    def __repr__(self) -> str:
        width = max(len(one.name) for one in self.timed)
        longest = max(one.time_us for one in self.timed)
        figures = [_time(one.time_us) for one in self.timed]
        column = max(map(len, figures))
        lines = [
            f"{one.name:<{width}}  {figure:>{column}} ±{100 * one.half_width:.1f} %  "
            + "█" * max(1, round(24 * one.time_us / longest))
            for one, figure in zip(self.timed, figures, strict=True)
        ]
        return "\n".join([*lines, *self._verdicts(), self.timed[0]._method()])

    def _repr_html_(self) -> str:
        verdicts = "".join(f"<p>{html.escape(line)}</p>" for line in self._verdicts())
        return _table(self.timed) + verdicts + f"<small>{html.escape(self.timed[0]._method())}</small>"

    def _verdicts(self) -> list[str]:
        first = self.timed[0].name
        return [f"{first} is {_SAID[one.verdict]} {one.name}: {one.reason}" for one in self.against]


_SAID = {
    Verdict.SAME: "the SAME as",
    Verdict.FASTER: "FASTER than",
    Verdict.SLOWER: "SLOWER than",
    Verdict.UNDECIDED: "UNDECIDED against",
}


def bench(
    function: Callable[..., Any], *args: Any, name: str | None = None, half_width: float = 0.001, budget_ms: float = 200
) -> Timed:
    """How long a function takes on the current GPU, cold and without the host's launches.

    Args:
        function: called with `args` hundreds of times; it must queue its work on torch's current stream.
        *args: its arguments.
        name: what to call it in the result; its own name by default.
        half_width: relative half-width, within this process, at which timing stops.
        budget_ms: device time after which it stops in any case.

    Raises:
        UserError: the function raises, queues no work, or an argument holds NaN.
        InfrastructureError: there is no GPU.
    """
    label = name or str(getattr(function, "__name__", None) or type(function).__name__)
    watch, calls = _stopwatch(args), _calls({label: function}, args)
    return watch.bench(calls, TimingSettings(half_width=half_width, looks=LOOKS, budget_us=1e3 * budget_ms))


def duel(
    functions: Mapping[str, Callable[..., Any]], *args: Any, threshold: float = 0.01, budget_ms: float = 400
) -> Duel:
    """Whether the first of several functions is the same as, faster or slower than each of the others.

    Args:
        functions: two or more by name; all are called with `args`, in the same rounds.
        *args: their arguments.
        threshold: the smallest relative difference that matters; within it either way is the same.
        budget_ms: device time for each function after which the verdict may stay undecided.

    Raises:
        UserError: there are fewer than two functions, one raises or queues no work, or an argument holds NaN.
        InfrastructureError: there is no GPU.
    """
    if len(functions) < 2:
        raise UserError(
            f"duel has {len(functions)} functions; give two or more by name, such as {{'mine': f, 'theirs': g}}"
        )
    watch, calls = _stopwatch(args), _calls(functions, args)
    return watch.duel(calls, threshold, TimingSettings(looks=DUEL_LOOKS, budget_us=1e3 * budget_ms * len(functions)))


class Stopwatch:
    """Times calls on one stream of a device."""

    def __init__(self, device: Device, rng: random.Random | None = None) -> None:
        """Time on a device; `rng` orders the calls of a round."""
        self.device, self.sampler = device, Sampler(device)
        self._rng = rng if rng is not None else random.Random()

    def bench(self, calls: Calls, settings: TimingSettings) -> Timed:
        """Rounds of one call until its time is known well enough within this process, or the budget is spent."""
        (label,) = calls
        schedule, samples = self._prepare(calls, settings), list[Sample]()
        for rounds in _looks(schedule.looks):
            samples += self._take(calls, rounds, schedule)
            if log_interval(self._rounds(samples, label)).half_width <= settings.half_width:
                break
        return self._timed(samples, label)

    def duel(self, calls: Calls, threshold: float, settings: TimingSettings) -> Duel:
        """Rounds of all calls until the first is decided against every other, or the budget is spent."""
        first, *others = calls
        schedule, samples = self._prepare(calls, settings), list[Sample]()
        verdicts: dict[str, tuple[Interval, Decision]] = {}
        for rounds in _looks(schedule.looks):
            samples += self._take(calls, rounds, schedule)
            for other in others:
                rivalry = Rivalry()
                summarise_duel(rivalry, samples, other, first)
                if rivalry.ratio is not None:
                    verdicts[other] = rivalry.ratio, decide(rivalry.ratio, threshold)
            if len(verdicts) == len(others) and all(d.verdict is not Verdict.UNDECIDED for _, d in verdicts.values()):
                break
        against = [Against(other, d.verdict, ratio, d.reason) for other, (ratio, d) in verdicts.items()]
        return Duel(tuple(self._timed(samples, label) for label in calls), tuple(against))

    def _prepare(self, calls: Calls, settings: TimingSettings) -> RoundPlan:
        """Warm up, refuse what does nothing, and plan the rounds.

        Raises:
            UserError: a function queues no work.
        """
        for label in calls:
            self.sampler.forget(label)
        steady_us = self._warm_up(calls)
        self.sampler.calibrate()
        probes = {**calls, NULL_KERNEL: self.device.nothing, NO_CALL: lambda: None}
        each = max(2, min(PROBES, int(PROBED_US / steady_us)))
        times = self._typical(self._slots(probes, 0, 0, self._fitting(calls, each)))
        # Halfway: marks with nothing between them lie a microsecond or two closer than around an empty kernel.
        least_us = (times[NULL_KERNEL] + times[NO_CALL]) / 2.0
        for label in calls if self.device.is_gpu else ():
            if times[label] < least_us:
                raise UserError(
                    f"{label!r} queues no work on torch's current stream: it takes {times[label]:.1f} us and an empty"
                    f" kernel {times[NULL_KERNEL]:.1f} us; return from it only after launching there"
                )
        longest = max(times[label] for label in calls)
        flush_us = max(0.0, max(self.sampler.device_us[label] - times[label] for label in calls))
        schedule = plan(longest, longest, flush_us, settings)
        return dataclasses.replace(schedule, samples=self._fitting(calls, schedule.samples))

    def _warm_up(self, calls: Calls) -> float:
        """Call until times no longer change; the time of all calls, one of each."""
        began, previous, steady = time.monotonic(), math.inf, 0
        least_s = WARM_S if self.device.is_gpu else 0.0
        while (steady < STEADY_TURNS or time.monotonic() - began < least_s) and time.monotonic() - began < MOST_WARM_S:
            times = self._typical(self._slots(calls, 0, 0, self._fitting(calls, 8 if previous < 1e3 else 1)))
            spent_us = math.fsum(times[label] for label in calls)
            steady = steady + 1 if abs(spent_us / previous - 1.0) < STEADY else 0
            previous = spent_us
        return previous

    def _fitting(self, calls: Calls, wanted: int) -> int:
        """Calls of each function in a batch: as many as wanted, or as can be queued while the stream is held."""
        host_us = math.fsum(self.sampler.host_us.get((label, False), QUEUED_US / 2) for label in calls)
        return max(1, min(wanted, int(QUEUED_US / max(host_us, 1e-9))))

    def _take(self, calls: Calls, rounds: range, schedule: RoundPlan) -> list[Sample]:
        slots: list[Slot] = []
        for number in rounds:
            for turn in range(schedule.turns):
                # Turns alternate, so that each is a batch of its own: every other batch takes a little longer.
                batch = (number * schedule.turns + turn) % 2
                nulls = [Slot(NULL_KERNEL, number, self.device.nothing, turn=batch)] * -(
                    -schedule.samples // NULL_SHARE
                )
                some = self._slots(calls, number, batch, schedule.samples) + nulls
                slots += self._rng.sample(some, len(some))
        return self.sampler.run(slots)

    def _slots(self, calls: Calls, number: int, turn: int, each: int) -> list[Slot]:
        """Calls of one turn in random order."""
        slots = [Slot(label, number, call, turn=turn) for label, call in calls.items() for _ in range(each)]
        self._rng.shuffle(slots)
        return slots

    def _typical(self, slots: Sequence[Slot]) -> dict[str, float]:
        samples = self.sampler.run(slots)
        labels = {sample.label for sample in samples}
        return {label: centre([s.time_us for s in best_samples(samples, label)]) for label in labels}

    def _rounds(self, samples: Sequence[Sample], label: str) -> list[float]:
        """The logarithm of a call's time in each round, less what this process adds to every call."""
        times_us = by_round(best_samples(samples, label), label, self.sampler.null_kernel.shift_us)
        return [math.log(times_us[number]) for number in sorted(times_us)]

    def _timed(self, samples: Sequence[Sample], label: str) -> Timed:
        logs = self._rounds(samples, label)
        interval = log_interval(logs, process_sigma(math.exp(statistics.fmean(logs))))
        times_us = tuple(s.time_us for s in samples if s.label == label)
        exposed = any(s.exposed for s in best_samples(samples, label))
        return Timed(
            label, interval.value, interval.low, interval.high, times_us, len(logs), self.device.model, exposed
        )


def _looks(looks: Sequence[int]) -> list[range]:
    """The rounds between one look and the next."""
    return [range(before, look) for before, look in zip((0, *looks), looks, strict=False)]


def _stopwatch(args: Sequence[Any]) -> Stopwatch:
    """The stopwatch of torch's current device and stream.

    Raises:
        MissingDependencyError: torch is not installed.
        InfrastructureError: there is no GPU.
        UserError: an argument lies on another GPU, or holds NaN.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError("torch", "gpu", "timing a function") from error
    if not torch.cuda.is_available():
        raise InfrastructureError(NO_GPU)
    current = torch.cuda.current_device()
    numbers = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    for at, value in enumerate(args):
        if not isinstance(value, torch.Tensor):
            continue
        if value.is_cuda and value.device.index != current:
            on = f"is on {value.device} and torch's current device is cuda:{current}"
            raise UserError(f"argument {at} {on}; make them the same")
        if value.dtype in numbers and bool(value.isnan().any()):
            raise UserError(f"argument {at} holds NaN, and times depend on values; fill it, such as with torch.randn")
    return _stopwatch_on(current, int(torch.cuda.current_stream().cuda_stream))


@functools.cache
def _stopwatch_on(index: int, stream: int) -> Stopwatch:
    """One per device and stream for the life of the process: a new one takes half a second to compile its hold."""
    device = CudaDevice(index)
    device.compile_hold()
    return Stopwatch(device)


def _calls(functions: Mapping[str, Callable[..., Any]], args: Sequence[Any]) -> dict[str, Call]:
    """Functions with their arguments, each called once.

    Raises:
        UserError: one cannot be called, or raises.
    """
    import torch

    calls: dict[str, Call] = {}
    for label, function in functions.items():
        if not callable(function):
            raise UserError(f"{label!r} is {type(function).__name__}, which cannot be called; give a function")
        calls[label] = functools.partial(function, *args)
        try:
            calls[label]()
            torch.cuda.synchronize()
        except Exception as error:
            message = " ".join(str(error).split())[:300]
            raise UserError(f"{label!r} raises {type(error).__name__}: {message}") from error
    return calls


def sparkline(values: Sequence[float], columns: int = 12) -> str:
    """How values are distributed, as a row of bars from their lowest to their 98th percentile."""
    ordered = sorted(values)
    low, high = ordered[0], ordered[min(len(ordered) - 1, int(0.98 * len(ordered)))]
    counts = [0] * columns
    for value in values:
        counts[min(columns - 1, int(columns * (value - low) / ((high - low) or 1.0)))] += 1
    return "".join(BARS[round((len(BARS) - 1) * count / max(counts))] for count in counts)


def _time(time_us: float) -> str:
    """A time with four digits, in the unit that suits it."""
    unit, scale = ("µs", 1.0) if time_us < 1e3 else ("ms", 1e3) if time_us < 1e6 else ("s", 1e6)
    return f"{time_us / scale:.4g} {unit}"


def _table(timed: Sequence[Timed]) -> str:
    longest = max(one.time_us for one in timed)
    rows = "".join(
        f"<tr><td>{html.escape(one.name)}</td><td>{_time(one.time_us)}</td><td>±{100 * one.half_width:.1f} %</td>"
        f'<td style="width:12em"><div style="background:#4c78a8;height:.8em;width:{100 * one.time_us / longest:.1f}%">'
        f"</div></td><td>{sparkline(one.samples_us)}</td></tr>"
        for one in timed
    )
    return f"<table>{rows}</table>"
