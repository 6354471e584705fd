"""Comparison: is the second of two kernels the same as, faster or slower than the first?"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kbench.harness.harness import GpuChoice, Harness
from kbench.harness.kernel.sources import read_kernel
from kbench.harness.queue.job import Outcome
from kbench.harness.timing.duel import Verdict, decide
from kbench.harness.timing.interval import Interval
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

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return dataclasses.asdict(self) | {"verdict": self.verdict.value}


def compare_files(
    one: Path, other: Path, problem_id: str, backend: str | None = None, **settings: Any
) -> list[Comparison]:
    """Compare the kernels of two files; the settings are those of `compare_kernels`.

    Raises:
        UserError: the files solve different problems.
    """
    first, second = (read_kernel(path, problem_id, backend) for path in (one, other))
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
        outcome = next(harness.duels([(first, second)], threshold))
    return list(verdicts(outcome, threshold))


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
        found = decide(ratio, threshold)
        yield Comparison(
            result["workload"], found.verdict, found.reason, ratio.value, ratio.low, ratio.high, result["rounds"]
        )
