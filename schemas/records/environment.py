"""Environment: the machine and software a measurement was made in."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Positive, Record, Sha


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Environment(Record):
    """The machine and software a measurement was made in."""

    TYPE: ClassVar[str] = "environment"
    VERSION: ClassVar[str] = "1.0.0"

    env_id: Sha
    """Hash of all other fields."""
    gpu: str
    """GPU name as the driver reports it."""
    compute_capability: str
    """Such as 9.0."""
    sm_count: Count
    """Streaming multiprocessors."""
    memory_bytes: Count
    """Device memory."""
    l2_bytes: Count
    """L2 cache."""
    shared_bytes_per_block: Count
    """Largest opt-in shared memory of one block."""
    driver: str
    """Driver version."""
    cuda: str
    """CUDA runtime version."""
    python: str
    """Python version."""
    torch: str
    """PyTorch version."""
    triton: str
    """Triton version."""
    nvrtc: str | None
    """NVRTC version; null when absent."""
    copy_bandwidth_gbs: Positive | None
    """Measured device-to-device copy, bytes read plus written, in 1e9 bytes per second."""
    matmul_peak_tflops: Positive | None
    """Measured large bf16 matrix product on random data."""
    timer_step_ns: Positive | None
    """Measured granularity of the event timer."""
    sandbox: str
    """What isolation was in force, such as netns+rlimit+scratch."""
    kbench: str
    """kbench version."""
