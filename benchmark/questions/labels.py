"""Answers, as columns: what a forecast is scored against. They never travel with a query."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints

Strings = npt.NDArray[np.object_]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PairLabels:
    """One row per pair: answers of the tracks forecast and select."""

    query: Ints
    """Position of the pair's query."""
    bin: Ints
    speedup: Floats
    speedup_low: Floats
    speedup_high: Floats
    runtime_us: Floats
    """The candidate's runtime; NaN where only the ratio is known."""
    problem: Strings
    family: Strings
    backend: Strings
    kind: Strings
    """As the query states it."""
    relation: Strings
    """parent_edit where one kernel is an edit of the other; otherwise the kind."""
    split: Strings
    origin: Strings
    candidate: Strings
    author: Strings
    """Author class of both kernels; empty where the question does not say."""
    core: npt.NDArray[np.bool_]
    """Whether the pair is in core (kbench.benchmark.questions.benchmark_2.core)."""

    def take(self, rows: npt.NDArray[Any]) -> PairLabels:
        """The rows at these positions, or where the mask holds."""
        return _take(self, rows)

    def __len__(self) -> int:
        return len(self.query)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolLabels:
    """One row per measured kernel against the PyTorch reference: answers of the tracks rank, search and validity."""

    query: Ints
    """Position of the kernel's query."""
    pool: Strings
    """Problem and GPU."""
    valid: npt.NDArray[np.bool_]
    asked_valid: npt.NDArray[np.bool_]
    """Whether the validity track asks about it: being another query's anchor tells that a kernel is correct."""
    runtime_us: Floats
    """NaN for a kernel that failed."""
    runtime_low_us: Floats
    runtime_high_us: Floats
    speedup: Floats
    """Against the reference; NaN for a kernel that failed."""
    problem: Strings
    family: Strings
    backend: Strings
    split: Strings
    proposer: Strings
    candidate: Strings
    core: npt.NDArray[np.bool_]
    """Whether its pool is in core."""

    def take(self, rows: npt.NDArray[Any]) -> PoolLabels:
        """The rows at these positions, or where the mask holds."""
        return _take(self, rows)

    def __len__(self) -> int:
        return len(self.query)

    def pools(self) -> list[Ints]:
        """Row positions of each pool, in order of the pools' names."""
        _, index = np.unique(self.pool.astype(str), return_inverse=True)
        order = np.argsort(index, kind="stable")
        return list(np.split(order, np.flatnonzero(np.diff(index[order])) + 1)) if len(order) else []


Labels = TypeVar("Labels", PairLabels, PoolLabels)


def _take(labels: Labels, rows: npt.NDArray[Any]) -> Labels:
    return type(labels)(**{f.name: getattr(labels, f.name)[rows] for f in dataclasses.fields(labels)})


def floats(values: list[Any]) -> Floats:
    """A column of numbers; null becomes NaN."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def strings(values: list[Any]) -> Strings:
    """A column of texts."""
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result
