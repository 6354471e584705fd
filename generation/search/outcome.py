"""Outcome: what the measurements of one kernel on all workloads say together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from kbench.schemas import Measurement, Status


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One workload of a kernel, as proposers are told of it."""

    workload: str
    status: str
    runtime_us: float | None
    speedup: float | None
    floor_us: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """A kernel's verdict: ok only if every workload is; figures are geometric means over workloads."""

    status: Status
    error: str | None
    runtime_us: float | None
    speedup: float | None
    workloads: tuple[Figure, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values for the log."""
        data = dataclasses.asdict(self)
        data["status"] = self.status.value
        return data


def outcome_from_json(data: Mapping[str, Any]) -> Outcome:
    """Read an outcome back from the log."""
    figures = tuple(Figure(**figure) for figure in data["workloads"])
    return Outcome(Status(data["status"]), data["error"], data["runtime_us"], data["speedup"], figures)


def outcome_of(measurements: Sequence[Mapping[str, Any]]) -> Outcome:
    """The outcome of measurements as the log holds them; the first failing workload names the failure."""
    names = [field.name for field in dataclasses.fields(Figure)]
    figures = tuple(Figure(**{name: row[name] for name in names}) for row in measurements)
    for row in measurements:
        if row["status"] != Status.OK.value:
            return Outcome(Status(row["status"]), row["error"], None, None, figures)
    runtime = _geometric_mean([row["runtime_us"] for row in measurements])
    return Outcome(Status.OK, None, runtime, _geometric_mean([row["speedup"] for row in measurements]), figures)


def _geometric_mean(values: Sequence[float | None]) -> float | None:
    """Null when a workload's figure is not known, as in imported measurements."""
    known = [math.log(value) for value in values if value is not None]
    return math.exp(math.fsum(known) / len(known)) if known and len(known) == len(values) else None


def gpu_seconds(measurements: Sequence[Measurement]) -> float:
    """GPU time the measurements of one kernel took."""
    return math.fsum((m.verify_s or 0.0) + (m.time_s or 0.0) for m in measurements)


def build_seconds(measurements: Sequence[Measurement]) -> float:
    """Build time of one kernel: every workload's record repeats it, it is charged once."""
    return max((m.build_s or 0.0 for m in measurements), default=0.0)
