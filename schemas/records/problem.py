"""Problem: an operation that kernels solve."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Name, NonNegative, Probability, Record
from kbench.schemas.records.workload import Workload


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
