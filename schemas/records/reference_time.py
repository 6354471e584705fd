"""ReferenceTime: how long PyTorch, its compiler and the vendor's library take on one workload."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Name, Positive, Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTime(Record):
    """A problem's reference on one workload and GPU, three ways; each answer was checked against the oracle."""

    TYPE: ClassVar[str] = "reference_time"
    VERSION: ClassVar[str] = "1.0.0"

    problem_id: Name
    """Problem whose reference it is."""
    workload: Name
    """Workload of the problem."""
    gpu: str
    """Model of the GPU."""
    reference_us: Positive
    """Steady time of the reference in eager PyTorch."""
    compiled_us: Positive | None
    """The same through `torch.compile` with its default mode; null when it failed."""
    compiled_error: str | None
    """Why there is no compiled time."""
    vendor_us: Positive | None
    """Steady time of the fastest vendor call that does the whole problem; null when there is none or all failed."""
    vendor: str | None
    """Library of that call, such as cuBLASLt, cuDNN or FlashAttention."""
    vendor_error: str | None
    """Why there is no vendor time, where a library has such a call."""
    torch: str
    """Version of torch."""
    driver: str
    """Version of the GPU's driver."""
    measured_at: str
    """When, in UTC, as ISO 8601."""
