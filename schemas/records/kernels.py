"""A kernel: its row of the dataset, its row of a live study, and what the hardware counted while it ran."""

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


class AuthorClass(StrEnum):
    """Who writes kernels alike: speeds are compared within a class, so that style answers nothing."""

    GENOME = "genome"
    """Rendered from a template."""
    REWRITE = "rewrite"
    """A source-level edit by a rule."""
    LLM = "llm"
    """A language model's, in a search."""
    OUTSIDE = "outside"
    """Written outside a search, by whomever."""

    @classmethod
    def of(cls, proposer: str, search_method: str) -> AuthorClass:
        """The class of a kernel, from the columns that say who wrote it and what asked for it."""
        if proposer in (cls.GENOME, cls.REWRITE):
            return cls(proposer)
        return cls.LLM if proposer == cls.LLM and search_method not in ("written", "none") else cls.OUTSIDE


@dataclasses.dataclass(frozen=True, slots=True)
class KernelSource:
    """A kernel before anything is known of it: what is built, verified and timed."""

    problem_id: str
    backend: Backend
    source: str
    workloads_json: str | None = None
    """The workloads of a problem that is not ours, as queries state them; such a kernel is only ever counted."""

    @property
    def kernel_id(self) -> str:
        """Its content identity."""
        return kernel_id(self.problem_id, self.backend, self.source)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(Record):
    """A kernel on a GPU, aggregated over its problem's workloads (geometric means)."""

    TYPE: ClassVar[str] = "kernel"
    VERSION: ClassVar[str] = "1.3.0"

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
    """train, validation, test (unseen problem), test_near (unseen problem of a seen template) or test_seen (unseen
    kernel of a seen problem)."""
    source: str
    """The whole source text."""
    status: Status | None
    """Verdict over all workloads; null when nobody measured the kernel."""
    error: str | None
    """What happened, when the status is a failure."""
    runtime_us: Positive | None
    """Geometric mean over workloads of the measurements' runtime_us, which docs/harness.md defines."""
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
    normalised: str | None = None
    """The source as questions show it: no comments, docstrings or blank lines, regular indentation. Null in rows of
    older schemas."""
    speedup_best: Positive | None = None
    """As `speedup`, but over the best reference of each workload: eager, torch.compile or the vendor's library.
    Launch-bound workloads (the best reference takes less than 10 µs) are left out unless all are. Null without
    reference times, and in rows of older schemas."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveKernel(Record):
    """One measurement of a live study: which kernel a search asked for, in which order, and how fast it was.

    A kernel that several searches asked for has a row in each. Times and samples are not part of it.
    """

    TYPE: ClassVar[str] = "live_kernel"
    VERSION: ClassVar[str] = "1.0.0"

    study: str
    """The study: live-2 (kernels from genomes) or live-llm (kernels by a language model)."""
    run_id: str
    """The search: one problem, backend and method."""
    number: Count
    """How many kernels the search had measured before."""
    step: Count
    """Step within the search."""
    problem_id: Name
    """The problem it solves."""
    family: Name
    """The problem's family."""
    backend: Backend
    """triton or cuda."""
    gpu: str
    """GPU name as the driver reports it."""
    split: str
    """The problem's split: test for all, because the studies search on problems that no surrogate has seen."""
    search_method: str
    """What chose to propose it, with `+surrogate` appended when a surrogate filtered."""
    proposer: str
    """Who wrote it: genome or llm."""
    model: str | None
    """Language model that wrote it; null when none did."""
    operator: str
    """How it was made: fresh, mutate, cross, and so on."""
    parent_id: Sha | None
    """The kernel it was derived from; null for a fresh one."""
    other_id: Sha | None
    """The second parent of a cross; else null."""
    lineage: str | None
    """Template family it was made from; null when none was."""
    recipe_json: str | None
    """Family and genome as JSON, from which the source is rendered; null for a language model's."""
    kernel_id: Sha
    """Hash of problem, backend and canonical source (see kbench.schemas.ids)."""
    source: str
    """The whole source text."""
    license: str
    """Licence of the source text."""
    status: Status
    """Verdict over all workloads."""
    speedup: Positive | None
    """Geometric mean over workloads of reference time over kernel time; null unless all are correct."""
    workloads: tuple[str, ...]
    """The problem's workloads."""
    speedups: tuple[Positive | None, ...]
    """Reference time over kernel time on each workload; null where the kernel failed."""
    gpu_seconds: NonNegative
    """GPU time that measuring it took."""
    measured_at: str
    """When, in UTC, as ISO 8601."""


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
    """Sum of their durations under the profiler, without the gaps between launches: mostly shorter than the measured
    time of a call."""
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
