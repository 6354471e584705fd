"""LiveKernel: a kernel that a search measured on a GPU, with its place in the search."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Count, Name, NonNegative, Positive, Record, Sha
from kbench.schemas.records.kernel import Backend
from kbench.schemas.status import Status


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
