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


# Figures that exist exactly when the kernel was verified and timed by the harness. A row without env_id was measured
# elsewhere, by people who may have published only some of them.
TIMED_FIELDS = ("runtime_us", "runtime_low_us", "runtime_high_us", "speedup", "speedup_low", "speedup_high")
