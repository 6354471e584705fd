"""Comparison: is the second of two kernels the same as, faster or slower than the first?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kbench.harness.harness import GpuChoice, Harness
from kbench.harness.kernel.sources import RawLaunch, of_raw, read_kernel
from kbench.harness.queue.job import Outcome
from kbench.harness.timing.duel import Verdict, decide
from kbench.harness.timing.interval import Interval
from kbench.harness.timing.second_clock import SecondTimes, contradiction
from kbench.schemas import KernelSource, Status, UserError


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """The verdict on one workload."""

    workload: str
    verdict: Verdict
    reason: str
    ratio: float | None
    """Time of the first over time of the second: above 1 when the second is faster."""
    ratio_low: float | None
    ratio_high: float | None
    rounds: int | None
    first_us: float | None = None
    second_us: float | None = None

    @property
    def decided(self) -> bool:
        """Whether one of the two is faster."""
        return self.verdict in (Verdict.FASTER, Verdict.SLOWER)

    def faster(self, pair: tuple[KernelSource, KernelSource]) -> KernelSource:
        """The faster kernel of a pair; the first where neither is."""
        return pair[self.verdict is Verdict.FASTER]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self) | {"verdict": self.verdict.value}


def compare_files(
    one: Path,
    other: Path,
    problem_id: str,
    backend: str | None = None,
    launch: RawLaunch | None = None,
    **settings: Any,
) -> list[Comparison]:
    """Compare the kernels of two files; the launch is that of raw CUDA C++, the settings those of `compare_kernels`.

    Raises:
        UserError: the files solve different problems.
    """
    first, second = (read_kernel(path, problem_id, backend, of_raw(path, launch)) for path in (one, other))
    if first.problem_id != second.problem_id:
        raise UserError(f"{one} solves {first.problem_id}, {other} solves {second.problem_id}; compare kernels of one")
    return compare_kernels(first, second, **settings)


def compare_kernels(
    first: KernelSource, second: KernelSource, *, gpu: GpuChoice | None = 0, threshold: float = 0.01, **settings: Any
) -> list[Comparison]:
    """Compare two kernels of one problem, in the same process and the same rounds.

    Args:
        first: the kernel compared with.
        second: the kernel judged.
        gpu: as `--gpu` names it; None for a dry run on the CPU.
        threshold: the smallest relative difference that matters.
        **settings: any field of the harness's settings.
    """
    with Harness(gpu=gpu, **settings) as harness:
        return compare_pairs(harness, [(first, second)], threshold)[0]


def compare_pairs(
    harness: Harness, pairs: Sequence[tuple[KernelSource, KernelSource]], threshold: float
) -> list[list[Comparison]]:
    """Compare the kernels of each pair on an open harness; the profiler times what is called faster, too."""
    comparisons: list[list[Comparison]] = [[] for _ in pairs]
    faster: dict[str, KernelSource] = {}
    for outcome in harness.duels(pairs, threshold):
        number = outcome.job.number
        comparisons[number] = list(verdicts(outcome, threshold))
        for one in comparisons[number] if not outcome.job.process else ():
            if one.decided:
                faster[one.faster(pairs[number]).kernel_id] = one.faster(pairs[number])
    seconds = dict(harness.second_clock(faster.values())) if faster else {}
    paired = [(one, pair) for ones, pair in zip(comparisons, pairs, strict=True) for one in ones]
    doubted = {one.faster(pair).kernel_id for one, pair in paired if confirmed(one, pair, seconds) is not one}
    if doubted:
        # The device may have been cold: a contradiction counts if it is there twice.
        seconds |= harness.second_clock(faster[key] for key in doubted)
    return [[confirmed(one, pair, seconds) for one in ones] for ones, pair in zip(comparisons, pairs, strict=True)]


def confirmed(
    comparison: Comparison, pair: tuple[KernelSource, KernelSource], seconds: Mapping[str, SecondTimes]
) -> Comparison:
    """A comparison after the profiler timed what is faster: undecided where that took longer than it had seemed."""
    second_times = seconds.get(comparison.faster(pair).kernel_id) if comparison.decided else None
    timed_us = comparison.second_us if comparison.verdict is Verdict.FASTER else comparison.first_us
    why = (
        None if second_times is None or timed_us is None else contradiction(timed_us, comparison.workload, second_times)
    )
    if why is None:
        return comparison
    reason = f"what seems faster is rejected: {why}"
    return Comparison(comparison.workload, Verdict.UNDECIDED, reason, None, None, None, comparison.rounds)


def verdicts(outcome: Outcome, threshold: float) -> Iterator[Comparison]:
    """The verdicts of one pair."""
    if outcome.status is not None or outcome.infrastructure is not None:
        why = outcome.reason or outcome.infrastructure or "no result"
        yield Comparison("all", Verdict.UNDECIDED, f"{outcome.status or 'infrastructure'}: {why}", *[None] * 4)
        return
    for result in outcome.results:
        if result["status"] != Status.OK.value or result.get("ratio") is None:
            reason = f"not compared: {result['status']}: {result['error']}"
            yield Comparison(result["workload"], Verdict.UNDECIDED, reason, *[None] * 4)
            continue
        ratio = Interval(*result["ratio"])
        decision = decide(ratio, threshold)
        yield Comparison(
            result["workload"], decision.verdict, decision.reason, ratio.value, ratio.low, ratio.high, result["rounds"],
            result["first_us"], result["second_us"],
        )  # fmt: skip
