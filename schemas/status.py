"""What can be said of a measured kernel: a closed list, and the fields each status carries."""

from __future__ import annotations

from enum import StrEnum


class Trust(StrEnum):
    """What stood between a kernel and its judge while it was measured."""

    PLAN = "plan"
    PROCESS = "process"


class Status(StrEnum):
    """The verdict on a kernel; `infrastructure_error` is about the machine and never becomes data."""

    OK = "ok"
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    INCORRECT = "incorrect"
    NONDETERMINISTIC = "nondeterministic"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    REJECTED = "rejected"
    INFRASTRUCTURE_ERROR = "infrastructure_error"


KERNEL_STATUSES: tuple[Status, ...] = tuple(s for s in Status if s is not Status.INFRASTRUCTURE_ERROR)

# Figures that exist exactly when the kernel was verified and timed by the harness. A row without env_id was measured
# elsewhere, by people who may have published only some of them.
TIMED_FIELDS = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high")


def field_errors(status: Status | None, row: dict[str, object]) -> list[tuple[str, str]]:
    """Which fields of `row` contradict its status.

    Args:
        status: the row's status; None for a kernel nobody measured.
        row: the row's fields by name; only those in the contract are looked at. One whose env_id is null was measured
            elsewhere and may lack figures.

    Returns:
        (field, reason) for every contradiction; empty when the row is consistent.
    """
    errors: list[tuple[str, str]] = []
    if status is Status.INFRASTRUCTURE_ERROR:
        errors.append(("status", "infrastructure_error is retried, never stored"))
    for field in TIMED_FIELDS:
        if field not in row:
            continue
        present = row[field] is not None
        if status is Status.OK and not present and row.get("env_id", "") is not None:
            errors.append((field, "must be set when status is ok"))
        if status is not Status.OK and present:
            errors.append((field, f"must be null when status is {status.value if status else 'null'}"))
    if "error" in row:
        failed = status is not None and status is not Status.OK
        if failed and not row["error"]:
            errors.append(("error", f"must say what happened when status is {status}"))
        if not failed and row["error"] is not None:
            errors.append(("error", "must be null unless the kernel failed"))
    return errors
