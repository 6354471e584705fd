"""Query: what a surrogate is asked. It carries no comment, and no label but those of the kernels it names as known."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from kbench.schemas.record import Name, Positive, Record, Sha
from kbench.schemas.records.benchmark.pair import PairKind
from kbench.schemas.records.kernel import Backend


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KnownKernel(Record):
    """A kernel of the query's problem and GPU that was measured before the question is asked."""

    TYPE: ClassVar[str] = "known_kernel"
    VERSION: ClassVar[str] = "1.0.0"

    source: str
    """Source without comments and docstrings."""
    backend: Backend
    """Its backend."""
    speedup: Positive
    """Its measured speedup over the PyTorch reference."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query(Record):
    """What a surrogate is asked: how much faster is the candidate than the anchor?"""

    TYPE: ClassVar[str] = "query"
    VERSION: ClassVar[str] = "1.2.0"

    query_id: Sha
    """Opaque identifier; says nothing about the answer."""
    problem_id: Name
    """The problem both kernels solve."""
    family: Name
    """The problem's family."""
    problem_text: str
    """The problem's prompt: what is computed, shapes, dtypes, reference source."""
    workloads_json: str
    """The timed workloads: names, inputs, outputs, flops and bytes, as JSON."""
    backend: Backend
    """The candidate's backend."""
    kind: PairKind
    """What the anchor is to the candidate."""
    anchor_source: str
    """Anchor source without comments and docstrings; the reference's source for kind reference."""
    candidate_source: str
    """Candidate source without comments and docstrings."""
    gpu: str
    """GPU name."""
    gpu_facts_json: str
    """Public facts of the GPU: capability, SM count, memory, L2, bandwidth, peaks, as JSON."""
    known: tuple[KnownKernel, ...] = ()
    """Up to eight kernels of the same problem and GPU with their speedups, neither the asked ones nor variants of
    them; empty unless the question is asked with shots."""
