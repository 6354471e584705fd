"""What a kernel does on a GPU, in figures a person can check: its work, what bounds it, how far it is from that bound.

Everything here follows from counted work and the table of GPUs. A forecast of the time comes from whoever has a model.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from kbench.benchmark.work.caches import dram_bytes
from kbench.benchmark.work.gpus import Gpu, resident_blocks, waves
from kbench.benchmark.work.memory import SECTOR
from kbench.benchmark.work.pipes import Pipe
from kbench.benchmark.work.times import RESOURCES, Fitted, LaunchTime, launch_time, plan_time_us
from kbench.benchmark.work.totals import LaunchWork, Work

PEAK = Fitted(dram_share=1.0, l2_share=1.0, tensor_share=1.0, issue_share=1.0, shared_share=1.0)
"""A GPU that reaches every rate its maker states."""
WITHOUT_RATE = ("latency", "launch")
"""Bounds that no rate of the GPU sets: waiting and starting."""
LINE_MEASURES = {"tensor": "flops", "shared": "shared_wavefronts", "l2": "l2_bytes", "dram": "l2_bytes"}
"""What of a line's work counts by what bounds the kernel; its instructions where nothing is named."""
FEW_LINES = 5
"""Lines that are named."""
NOTABLE = 0.05
"""Relative change of a figure that is worth telling."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forecast:
    """A time with the ends of an interval that holds four in five kernels."""

    time_us: float
    low_us: float
    high_us: float

    def above(self, bound_us: float) -> Forecast:
        """What of it is possible, where nothing is faster than a bound."""
        return Forecast(max(self.time_us, bound_us), max(self.low_us, bound_us), max(self.high_us, bound_us))


@dataclasses.dataclass(frozen=True, slots=True)
class LineFacts:
    """A line of the kernel's file that does much of the scarce work."""

    line: int
    share: float
    """Of what the kernel does of `measure`."""
    measure: str
    """flops, shared_wavefronts, l2_bytes or issued."""


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchFacts:
    """One launch: its geometry, what a multiprocessor holds of it, and its time."""

    function: str
    times: int
    """How often the kernel makes it."""
    grid: tuple[int, int, int]
    threads: int
    registers: int
    shared_bytes: int
    stack_bytes: int
    blocks_per_multiprocessor: int
    occupancy: float
    """Share of a multiprocessor's threads that are resident."""
    waves: int
    time_us: float
    """White-box time of one such launch."""
    bound: str
    multiprocessors: tuple[int, int] = (1, 1)
    """Those that have a block, and all of the GPU."""


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadFacts:
    """A kernel on one workload."""

    workload: str
    gpu: str
    configurations: int
    """Autotuning choices that were counted; the fastest is described."""
    launches: tuple[LaunchFacts, ...]
    fills_and_copies: int
    instructions: float
    """Machine instructions of warps, estimated from PTX."""
    pipes: Mapping[str, float]
    """Shares of them by the part of a multiprocessor that executes them: see `Pipe`."""
    flops: Mapping[int, float]
    """Operations of matrix products by bits of the factors; 32 is tf32."""
    load_bytes: float
    """Bytes that threads ask global memory for."""
    store_bytes: float
    sectors_per_request: float
    """Sectors of 32 bytes that a warp's load touches; 4 is what 32 neighbouring numbers of 4 bytes need."""
    sectors_per_store: float
    load_sectors_used: float
    """Share of the bytes of those sectors that the warp asks for; 1 where lanes ask for the same bytes."""
    store_sectors_used: float
    l1_unsure: float
    """Share of the sectors loaded that were counted as found in L1, though what is resident there exceeds it."""
    l2_bytes: float
    dram_bytes: float
    min_bytes: float
    """Bytes of the problem's inputs and outputs, once each."""
    shared_wavefronts: float
    bank_conflicts: float
    """Wavefronts of a shared-memory request beyond the first, on average."""
    atomics: float
    uncertain: float
    """Share of the instructions that rests on branches which depend on data."""
    parts_us: Mapping[str, float]
    """What each resource alone would take, at the rates kernels reach."""
    bound: str
    """The resource that takes longest."""
    bound_us: float | None
    """What it takes at least, at the stated rate of what the launches use of the GPU; None for waiting and starting,
    which have none."""
    white_box_us: float
    forecast: Forecast | None
    lines: tuple[LineFacts, ...]
    configuration: str | None = None
    """What the kernel calls the autotuning choice that is described."""
    common_bytes: float = 0.0
    """Of `l2_bytes`: from buffers of which all blocks read the same, so that DRAM gives them once; where DRAM is the
    bound, lines are told by the others."""

    @property
    def launch_count(self) -> int:
        """Launches, equal ones too."""
        return sum(launch.times for launch in self.launches)

    @property
    def longest(self) -> LaunchFacts:
        """The launch that takes longest, with its repeats."""
        return max(self.launches, key=lambda launch: launch.times * launch.time_us)

    @property
    def time_us(self) -> float:
        """The forecast time; the white-box time without a forecast."""
        return self.forecast.time_us if self.forecast is not None else self.white_box_us


def explain_work(
    workload: str,
    work: Work,
    gpu: Gpu,
    fitted: Fitted,
    *,
    configurations: int = 1,
    configuration: str | None = None,
    min_bytes: float = 0.0,
    forecast: Forecast | None = None,
) -> WorkloadFacts:
    """What a plan does on a GPU.

    Args:
        workload: its name.
        work: the plan's, counted.
        gpu: where it runs.
        fitted: constants of the white-box time.
        configurations: how many were counted, of which this is the fastest.
        configuration: what it is called.
        min_bytes: what the problem must move at least.
        forecast: a model's time, where there is one.
    """
    total, times = work.total, [(one, launch_time(one, gpu, fitted)) for one in work.launches]
    parts = _parts(times, work, gpu, fitted)
    bound = max(parts, key=lambda name: parts[name])
    peak = _parts([(one, launch_time(one, gpu, PEAK)) for one in work.launches], work, gpu, PEAK)
    bound_us = None if bound in WITHOUT_RATE else peak[bound]
    return WorkloadFacts(
        workload=workload,
        gpu=gpu.name,
        configurations=configurations,
        configuration=configuration,
        launches=tuple(_launch(one, time, gpu) for one, time in times),
        fills_and_copies=work.fills + work.copies,
        instructions=total.issued,
        pipes={pipe.value: getattr(total, pipe.value) / max(1.0, total.issued) for pipe in Pipe},
        flops={bits: flops for bits in (64, 32, 16, 8) if (flops := getattr(total, f"flops_{bits}"))},
        load_bytes=total.load_bytes + total.bulk_load_bytes,
        store_bytes=total.store_bytes + total.bulk_store_bytes,
        sectors_per_request=total.load_sectors / max(1.0, total.load_requests),
        sectors_per_store=total.store_sectors / max(1.0, total.store_requests),
        load_sectors_used=min(1.0, total.load_bytes / max(1.0, SECTOR * total.load_sectors)),
        store_sectors_used=min(1.0, total.store_bytes / max(1.0, SECTOR * total.store_sectors)),
        l1_unsure=sum(_crowded_sectors(one, gpu) for one in work.launches) / max(1.0, total.load_sectors),
        l2_bytes=total.l2_bytes,
        dram_bytes=sum(one.times * dram_bytes(one, gpu) for one in work.launches) + _moved(work),
        min_bytes=min_bytes,
        shared_wavefronts=total.shared_wavefronts,
        bank_conflicts=max(0.0, total.shared_wavefronts / max(1.0, total.shared_requests) - 1),
        atomics=total.atomics,
        uncertain=total.uncertain / max(1.0, total.ptx_instructions),
        parts_us=parts,
        bound=bound,
        bound_us=bound_us,
        white_box_us=plan_time_us(work, gpu, fitted),
        forecast=forecast if forecast is None or bound_us is None else forecast.above(bound_us),
        lines=_lines(work, bound),
        common_bytes=_common(work),
    )


def _crowded_sectors(launch: LaunchWork, gpu: Gpu) -> float:
    """Sectors taken to be in L1 of a launch whose resident blocks load more than fits beside their shared memory."""
    block, together = launch.per_block, resident_blocks(launch, gpu)
    crowded = together * (SECTOR * block.l1_miss_sectors + launch.shared_bytes) > gpu.shared_bytes
    return launch.times * launch.blocks * (block.load_sectors - block.l1_miss_sectors) if crowded else 0.0


def _moved(work: Work) -> int:
    """Bytes of fills and copies, which read what they write."""
    return work.fill_bytes + 2 * work.copy_bytes


def _parts(times: Sequence[tuple[LaunchWork, LaunchTime]], work: Work, gpu: Gpu, fitted: Fitted) -> dict[str, float]:
    parts = {name: sum(one.times * getattr(time, name) for one, time in times) for name in RESOURCES}
    parts["dram"] += _moved(work) / (1e3 * gpu.dram_gbps * fitted.dram_share)
    parts["launch"] += (work.fills + work.copies) * fitted.step_us
    return parts


def _launch(launch: LaunchWork, time: LaunchTime, gpu: Gpu) -> LaunchFacts:
    together = resident_blocks(launch, gpu)
    return LaunchFacts(
        function=launch.function,
        times=launch.times,
        grid=launch.grid,
        threads=launch.threads,
        registers=launch.registers,
        shared_bytes=launch.shared_bytes,
        stack_bytes=launch.stack_bytes,
        blocks_per_multiprocessor=together,
        occupancy=min(together, math.ceil(launch.blocks / gpu.multiprocessors)) * launch.threads / gpu.threads,
        waves=waves(launch, gpu),
        time_us=time.total,
        bound=time.bound,
        multiprocessors=(min(launch.blocks, gpu.multiprocessors), gpu.multiprocessors),
    )


def _common(work: Work) -> float:
    return sum(launch.times * launch.blocks * launch.common_bytes for launch in work.launches)


def _lines(work: Work, bound: str) -> tuple[LineFacts, ...]:
    """The lines that do most of what bounds the kernel, largest first."""
    measure = LINE_MEASURES.get(bound, "issued")
    dram = bound == "dram"
    whole = getattr(work.total, measure) - (_common(work) if dram else 0.0)
    shares: dict[int, float] = {}
    for launch in work.launches:
        for line in launch.lines:
            amount = getattr(line, measure) - (line.common_bytes if dram else 0.0)
            own = launch.times * launch.blocks * amount / whole if whole else 0.0
            shares[line.line] = shares.get(line.line, 0.0) + own
    largest = sorted(shares.items(), key=lambda pair: -pair[1])[:FEW_LINES]
    return tuple(LineFacts(line, share, measure) for line, share in largest if share >= NOTABLE)


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """Another kernel on the same workload: how much faster it should be, and what is different about it."""

    workload: str
    time_us: tuple[float, float]
    """Of either kernel."""
    speedup: float
    """Of the second kernel over the first; above one is faster."""
    p_faster: float | None
    """Chance that it is faster; None without a model."""
    changes: tuple[tuple[str, float, float], ...]
    """Figures that differ: name, the first kernel's, the second's."""
    reason: str
    """The resource whose time changes most,"""
    reason_us: tuple[float, float]
    """and what it takes in either kernel."""
    bounds: tuple[str, str]
    """The resource that takes longest in either kernel."""


COMPARED = ("instructions", "dram_bytes", "l2_bytes", "shared_wavefronts", "atomics", "sectors_per_request",
            "sectors_per_store")  # fmt: skip
OF_LONGEST = ("occupancy", "waves", "registers", "shared_bytes", "stack_bytes", "threads")
"""Figures of the launch that takes longest."""


def figures(facts: WorkloadFacts) -> dict[str, float]:
    """What is compared of two kernels, by name."""
    return {
        "launches": float(facts.launch_count),
        "tensor_flops": sum(facts.flops.values()),
        **{name: getattr(facts, name) for name in COMPARED},
        **{name: float(getattr(facts.longest, name)) for name in OF_LONGEST},
    }


def compare_facts(
    one: WorkloadFacts, other: WorkloadFacts, *, speedup: float | None = None, p_faster: float | None = None
) -> Comparison:
    """What is different about the second kernel; the speedup is that of the two times unless a model gives it."""
    after = figures(other)
    pairs = [(name, value, after[name]) for name, value in figures(one).items()]
    reason = max(RESOURCES, key=lambda name: abs(one.parts_us[name] - other.parts_us[name]))
    return Comparison(
        workload=one.workload,
        time_us=(one.time_us, other.time_us),
        speedup=one.time_us / other.time_us if speedup is None else speedup,
        p_faster=p_faster,
        changes=tuple(pair for pair in pairs if abs(pair[1] - pair[2]) > NOTABLE * max(pair[1:])),
        reason=reason,
        reason_us=(one.parts_us[reason], other.parts_us[reason]),
        bounds=(one.bound, other.bound),
    )
