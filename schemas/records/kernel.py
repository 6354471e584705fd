"""Kernel: one source text for one problem and backend, with its figures on one GPU."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import ClassVar

from kbench.schemas.ids import kernel_id
from kbench.schemas.record import Count, Name, NonNegative, Positive, Record, Sha
from kbench.schemas.status import Status


class Backend(StrEnum):
    """How a kernel is written; only imports have a tuning configuration (config) or PyTorch calls alone (torch)."""

    TRITON = "triton"
    CUDA = "cuda"
    CONFIG = "config"
    TORCH = "torch"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel before anything is known of it: what is built, verified and timed."""

    problem_id: str
    backend: Backend
    source: str

    @property
    def kernel_id(self) -> str:
        """Its content identity."""
        return kernel_id(self.problem_id, self.backend, self.source)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Record):
    """A kernel on a GPU, aggregated over its problem's workloads (geometric means)."""

    TYPE: ClassVar[str] = "kernel"
    VERSION: ClassVar[str] = "1.2.0"

    kernel_id: Sha
    """Hash of problem, backend and canonical source (see kbench.schemas.ids)."""
    problem_id: Name
    """The problem it solves."""
    family: Name
    """The problem's family."""
    backend: Backend
    """triton or cuda; when imported also config (a tuning configuration) and torch (PyTorch calls alone)."""
    gpu: str | None
    """GPU name as the driver reports it; null when nobody measured the kernel, or the origin does not say on what."""
    search_method: str
    """What chose to propose it: random, hill_climb, evolve, puct, with `+surrogate` appended when a surrogate filtered;
    `written` for a kernel that came as a file, and `written+` before the method that varied such kernels; or `none`."""
    proposer: str
    """Who wrote it: genome, rewrite, llm, human, or the origin's own word."""
    run_id: str
    """The search run it came from."""
    step: Count
    """Step within the run."""
    parent_id: Sha | None
    """The kernel it was derived from; null for a seed."""
    edit: str | None
    """What was changed against the parent; null for a seed."""
    structure_id: Sha
    """Hash of the stripped source with identifiers and literals masked."""
    cluster_id: Sha
    """Near-duplicate cluster; a cluster never spans splits."""
    split: str
    """train, validation, test (unseen problem) or test_seen (unseen kernel of a seen problem)."""
    source: str
    """The whole source text."""
    status: Status | None
    """Verdict over all workloads; null when nobody measured the kernel."""
    error: str | None
    """What happened, when the status is a failure."""
    runtime_us: Positive | None
    """Geometric mean over workloads of the median device time."""
    runtime_low_us: Positive | None
    """Lower end of its 95 % interval."""
    runtime_high_us: Positive | None
    """Upper end of its 95 % interval."""
    speedup: Positive | None
    """Geometric mean over workloads of reference time over kernel time."""
    speedup_low: Positive | None
    """Lower end of its 95 % interval."""
    speedup_high: Positive | None
    """Upper end of its 95 % interval."""
    compile_ms: NonNegative | None
    """Wall time of the build."""
    registers: Count | None
    """Registers per thread, the largest over the kernel's device functions."""
    shared_bytes: Count | None
    """Static and dynamic shared memory per block, the largest over device functions."""
    spill_bytes: Count | None
    """Local memory per thread used by spills, the largest over device functions."""
    env_id: Sha | None
    """The environment it was measured in; null when it was measured elsewhere, and then figures may be null too."""
    origin: str
    """Where the row comes from: kbench, or the imported dataset with revision."""
    license: str | None
    """Licence of the source text; null when the origin does not state one."""
    lineage: str | None = None
    """Template family its first ancestor was made from; null when none was, and in rows of older schemas."""
    model: str | None = None
    """Language model that wrote it; null when none did, or nothing says which."""
    generation: Count | None = None
    """Ancestors it has within its run: 0 for a seed. Null in rows of older schemas, and when not known."""
