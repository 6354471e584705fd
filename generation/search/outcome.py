"""KernelOutcome: what a search remembers of a measured kernel."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.harness.record import aggregate
from kbench.schemas import Measurement, Status


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadFigure:
    """One workload of a kernel, as shown to proposers."""

    workload: str
    status: str
    runtime_us: float | None
    speedup: float | None
    floor_us: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class KernelOutcome:
    """A kernel's verdict over all workloads, with the figures of each."""

    status: Status
    error: str | None
    runtime_us: float | None
    speedup: float | None
    workloads: tuple[WorkloadFigure, ...] = ()
    registers: int | None = None
    shared_bytes: int | None = None
    spill_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        return dataclasses.asdict(self) | {"status": self.status.value}


def outcome_from_json(data: Mapping[str, Any]) -> KernelOutcome:
    """Read an outcome back from the log."""
    figures = tuple(WorkloadFigure(**figure) for figure in data["workloads"])
    return KernelOutcome(**{**data, "status": Status(data["status"]), "workloads": figures})


def outcome_of(measurements: Sequence[Measurement]) -> KernelOutcome:
    """The outcome of a kernel's measurements."""
    verdict = aggregate(measurements)
    figures = tuple(
        WorkloadFigure(m.workload, m.status.value, m.runtime_us, m.speedup, m.floor_us) for m in measurements
    )
    return KernelOutcome(
        verdict.status, verdict.error, verdict.runtime_us, verdict.speedup, figures, verdict.registers,
        verdict.shared_bytes, verdict.spill_bytes,
    )  # fmt: skip


def gpu_seconds(measurements: Sequence[Measurement]) -> float:
    """GPU time the measurements of one kernel took."""
    return math.fsum((m.verify_s or 0.0) + (m.time_s or 0.0) for m in measurements)


def build_seconds(measurements: Sequence[Measurement]) -> float:
    """Build time of one kernel: every workload's record repeats it, it is charged once."""
    return max((m.build_s or 0.0 for m in measurements), default=0.0)
