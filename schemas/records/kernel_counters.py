"""KernelCounters: what the hardware counted while a kernel ran once on one workload."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, NonNegative, Positive, Record, Sha


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KernelCounters(Record):
    """Hardware counters of one call with a cold L2 cache, summed or averaged by time over the call's launches.

    Fills and copies between launches are not counted. What is written and still in the L2 cache at the end has not
    reached DRAM and is not counted there.
    """

    TYPE: ClassVar[str] = "kernel_counters"
    VERSION: ClassVar[str] = "1.0.0"

    kernel_id: Sha
    """The kernel."""
    problem_id: Name
    """The kernel's problem."""
    gpu: str
    """Model of the GPU."""
    workload: Name
    """The workload."""
    launches: Count
    """Launches that were counted."""
    profiled_us: Positive
    """Their time under the profiler, which is longer than the measured one."""
    dram_read_bytes: Count
    """Bytes read from DRAM."""
    dram_write_bytes: Count
    """Bytes written to DRAM."""
    l2_bytes: Count
    """Bytes that the L2 cache was asked for."""
    occupancy_percent: NonNegative
    """Resident warps, of the most that the multiprocessors hold, while they were active."""
    issue_percent: NonNegative
    """Instructions issued, of the most that can be, while multiprocessors were active."""
    tensor_percent: NonNegative
    """Cycles in which the tensor cores worked, of those in which multiprocessors were active."""
    profiler: str
    """Profiler and its version."""
    measured_at: str
    """When, in UTC, as ISO 8601."""
