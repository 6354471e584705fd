"""A problem, its workloads, and what its reference takes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, NonNegative, Positive, Probability, Record


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload(Record):
    """One named size of a problem: parameters, seed, and what it must at least compute and move."""

    TYPE: ClassVar[str] = "workload"
    VERSION: ClassVar[str] = "1.0.0"

    name: Name
    """Name within the problem, such as `large`; `tiny` is for CPU checks and is never timed."""
    params_json: str
    """Shape parameters as a JSON object with sorted keys, such as {"cols": 4096, "rows": 8192}."""
    inputs: tuple[str, ...]
    """Each input as dtype[shape], such as float32[8192,4096]; a Python scalar as its value."""
    outputs: tuple[str, ...]
    """Each output as dtype[shape]."""
    seed: Count
    """Base seed from which inputs are drawn."""
    flops: Count
    """Arithmetic operations any correct kernel must do (a multiply-add counts two)."""
    min_bytes: Count
    """Fewest bytes that must cross device memory: each input read once, each output written once."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Record):
    """An operation that kernels solve: reference, sizes and what counts as right."""

    TYPE: ClassVar[str] = "problem"
    VERSION: ClassVar[str] = "1.0.0"

    problem_id: Name
    """Stable identifier in lower snake case."""
    title: str
    """Short human title."""
    family: Name
    """Family of operations; splits and slices go by it."""
    description: str
    """What is computed, in plain language."""
    aliases: tuple[str, ...]
    """The same operation and shape in other suites, such as kernelbench/v0/L1/23."""
    dtypes: tuple[str, ...]
    """Element types of the inputs."""
    compute_unit: str
    """Unit whose peak bounds the arithmetic: fp32, tf32, bf16, fp16, fp8, int8 or fp64."""
    atol: NonNegative
    """Absolute tolerance on every output element."""
    rtol: NonNegative
    """Relative tolerance on every output element."""
    mismatch_share: Probability
    """Share of elements that may exceed the tolerance (rounding ties of quantised outputs); usually 0."""
    tolerance_reason: str
    """Why this tolerance: dtype and reduction length."""
    reference_source: str
    """PyTorch source of the reference."""
    prompt: str
    """The problem as told to a kernel writer or a forecaster."""
    workloads: tuple[Workload, ...]
    """The timed sizes."""
    tiny: Workload
    """The size for CPU checks."""


LAUNCH_BOUND_US = 10.0
"""Below this a call's time is mostly that of its launch."""


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

    @property
    def best(self) -> tuple[str, float]:
        """Name and time of the fastest of the three."""
        times = {"eager PyTorch": self.reference_us, "torch.compile": self.compiled_us, self.vendor: self.vendor_us}
        return min(((name, us) for name, us in times.items() if name and us), key=lambda one: one[1])

    @property
    def launch_bound(self) -> bool:
        """Whether even the best of the three is mostly the launch: headlines leave such a workload out."""
        return self.best[1] < LAUNCH_BOUND_US
