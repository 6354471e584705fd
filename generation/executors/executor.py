"""Executor: takes kernels, gives back their measurements in whatever order they finish."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from kbench.harness.timing.second_clock import SecondTimes
from kbench.schemas import Environment, KernelSource, Measurement, Status

if TYPE_CHECKING:
    from kbench.harness.commands.compare import Comparison

THRESHOLD = 0.005
"""The smallest relative difference between finalists that matters."""
Pair = tuple[KernelSource, KernelSource]
"""The kernel compared with, and the one judged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """A kernel's measurements, one per workload; `lost` says why there are none."""

    kernel_id: str
    measurements: tuple[Measurement, ...] = ()
    lost: str | None = None
    final: bool = False
    """A lost kernel that trying again cannot bring back."""


class Executor(contextlib.AbstractContextManager["Executor"], Protocol):
    """Measures kernels. Used as a context manager."""

    def submit(self, kernels: Sequence[KernelSource]) -> None:
        """Queue kernels; returns at once."""
        ...

    def collect(self, timeout_s: float) -> list[Result]:
        """Results that finished; waits up to `timeout_s` for the first when there is none."""
        ...

    def second_clock(self, kernels: Sequence[KernelSource]) -> Mapping[str, SecondTimes]:
        """What the profiler says of kernels, by id; nothing where there is none. Nothing is submitted after this."""
        ...

    def compare(self, pairs: Sequence[Pair]) -> list[list[Comparison]]:
        """Kernels against each other, by workload; nothing where none can be run. Nothing is submitted after this."""
        ...

    def environments(self) -> list[Environment]:
        """The environments results were measured in so far."""
        ...


def result_of(kernel_id: str, measurements: Sequence[Measurement]) -> Result:
    """A kernel's result; a broken machine loses it, whatever the other workloads say."""
    for measurement in measurements:
        if measurement.status is Status.INFRASTRUCTURE_ERROR:
            return Result(kernel_id, lost=measurement.error or "infrastructure error")
    if not measurements:
        return Result(kernel_id, lost="no measurement came back")
    return Result(kernel_id, tuple(measurements))
