"""Executor: takes kernels, gives back their measurements in whatever order they finish."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Protocol

from kbench.schemas import Environment, KernelSource, Measurement, Status


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
