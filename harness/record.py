"""Record: a worker's plain results become Measurement records; measurements of all workloads become one verdict."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kbench.harness.plan.cache import FIGURES, Build, readable
from kbench.harness.timing.second_clock import SecondTimes, contradiction
from kbench.schemas import KernelSource, Measurement, Status, from_dict
from kbench.schemas.ids import content_hash
from kbench.schemas.record import field_types

TIMED = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high")
PRIVATE = frozenset({"clocks", "plan_id"})
"""Fields of a worker's result that serve diagnosis, or name the plan it carried out, and are not part of the record."""

Bounded = tuple[float | None, float | None, float | None]
"""A figure with its interval; null where it is not known."""


def make_measurement(
    kernel: KernelSource,
    build: Build | None,
    result: Mapping[str, Any],
    *,
    gpu: str,
    env_id: str,
    started_at: str,
    build_s: float,
) -> Measurement:
    """One record, read strictly: a worker's figures are checked like any data from outside.

    Raises:
        DataError: a figure is missing, of the wrong type, or not finite.
    """
    kernel_id = kernel.kernel_id
    fields: dict[str, Any] = dict.fromkeys(field_types(Measurement))
    fields |= {name: value for name, value in result.items() if name not in PRIVATE}
    fields |= {
        "measurement_id": content_hash("measurement", kernel_id, gpu, str(result["workload"]), env_id, started_at),
        "kernel_id": kernel_id,
        "problem_id": kernel.problem_id,
        "gpu": gpu,
        "env_id": env_id,
        "started_at": started_at,
        "build_s": build_s,
        "verify_s": result.get("verify_s") or 0.0,
        "time_s": result.get("time_s") or 0.0,
    }
    if isinstance(fields["error"], str):
        fields["error"] = readable(fields["error"])
    if build is not None:
        # Of an autotuned kernel, the worker says which of its plans it timed.
        needs = build.resources.get(str(result.get("plan_id")), {})
        fields |= {name: needs.get(name, getattr(build, name)) for name in FIGURES}
        fields |= {name: getattr(build, name) for name in ("compile_ms", "cubin_sha")}
    return from_dict(Measurement, fields)


def second_times(kernel_ids: Sequence[str], results: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, SecondTimes]]:
    """The profiler's times of each kernel, from a worker's plain results."""
    for number, kernel_id in enumerate(kernel_ids):
        rows = [result for result in results if result["kernel"] == number]
        wrong = [str(row["error"]) for row in rows if row["error"] is not None]
        silent = [f"the profiler saw nothing of {row['workload']}" for row in rows if row["second_clock_us"] is None]
        reasons = wrong or silent or ([] if rows else ["it was not profiled"])
        yield kernel_id, reasons[0] if reasons else {row["workload"]: float(row["second_clock_us"]) for row in rows}


def refereed(rows: Sequence[Measurement], seconds: SecondTimes) -> list[Measurement]:
    """Measurements of a kernel after the profiler timed it; rejected where the two clocks disagree."""
    after: list[Measurement] = []
    for row in rows:
        fields: dict[str, Any] = {}
        if row.runtime_us is not None:
            why = contradiction(row.runtime_us, row.workload, seconds)
            second_us = None if isinstance(seconds, str) else seconds.get(row.workload)
            fields = {"second_clock_us": second_us, "clocks_disagree": None if second_us is None else why is not None}
            if why is not None:
                fields |= dict.fromkeys(TIMED) | {"status": Status.REJECTED, "error": why}
        after.append(dataclasses.replace(row, **fields))
    return after


def failure(workload: str, status: Status, reason: str) -> dict[str, Any]:
    """A plain result for a kernel that was not timed."""
    return {"workload": workload, "status": status.value, "error": reason}


@dataclasses.dataclass(frozen=True, slots=True)
class Aggregate:
    """A kernel over all workloads: the figures of its row in the kernels table."""

    status: Status
    error: str | None
    runtime_us: float | None
    runtime_low_us: float | None
    runtime_high_us: float | None
    speedup: float | None
    speedup_low: float | None
    speedup_high: float | None
    compile_ms: float | None
    registers: int | None
    shared_bytes: int | None
    spill_bytes: int | None
    gpu: str
    env_id: str | None


def aggregate(measurements: Sequence[Measurement]) -> Aggregate:
    """One verdict for a kernel: ok only if every workload is, then geometric means.

    The intervals of the workloads are independent, so the log half-widths add in squares before dividing by their
    number. A figure that one workload lacks, as imported measurements may, is null for the kernel.

    Args:
        measurements: all workloads of one kernel on one GPU, at least one.
    """
    failed = next((m for m in measurements if m.status is not Status.OK), None)
    first = failed or measurements[0]
    figures: dict[str, float | None] = dict.fromkeys(TIMED)
    if failed is None:
        for name, low, high in (TIMED[:3], TIMED[3:]):
            value, least, most = _geometric(
                [(getattr(m, name), getattr(m, low), getattr(m, high)) for m in measurements]
            )
            figures |= {name: value, low: least, high: most}
    return Aggregate(
        status=first.status,
        error=first.error,
        compile_ms=first.compile_ms,
        registers=first.registers,
        shared_bytes=first.shared_bytes,
        spill_bytes=first.spill_bytes,
        gpu=first.gpu,
        env_id=first.env_id,
        **figures,
    )


def _geometric(intervals: Sequence[Bounded]) -> Bounded:
    values = [value for value, _, _ in intervals if value is not None]
    bounds = [(value / low, high / value) for value, low, high in intervals if value and low and high]
    count = len(intervals)
    if len(values) < count:
        return None, None, None
    mean = math.fsum(map(math.log, values)) / count
    if len(bounds) < count:
        return math.exp(mean), None, None
    below = math.sqrt(math.fsum(math.log(down) ** 2 for down, _ in bounds)) / count
    above = math.sqrt(math.fsum(math.log(up) ** 2 for _, up in bounds)) / count
    return math.exp(mean), math.exp(mean - below), math.exp(mean + above)
