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
    """One row per pair: answers of the tracks forecast, edit and select."""

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
    """The kind, or `workload` for a question about one workload."""
    split: Strings
    origin: Strings
    """Of the candidate: kbench, or the dataset that it was imported from."""
    candidate: Strings
    author: Strings
    """Author class of both kernels."""
    core: npt.NDArray[np.bool_]
    """Whether the question is in core."""

    def take(self, rows: npt.NDArray[Any]) -> PairLabels:
        """The rows at these positions, or where the mask holds."""
        return _take(self, rows)

    def __len__(self) -> int:
        return len(self.query)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolLabels:
    """One row per kernel of a pool, against the PyTorch reference: answers of the track rank."""

    query: Ints
    """Position of the kernel's query."""
    pool: Strings
    """Its name, of problem, backend, author class and GPU."""
    valid: npt.NDArray[np.bool_]
    """Whether it was measured as correct; a season asks about kernels that may fail."""
    runtime_us: Floats
    """In units of the reference's time; NaN for a kernel that failed."""
    runtime_low_us: Floats
    runtime_high_us: Floats
    speedup: Floats
    """Against the reference; NaN for a kernel that failed."""
    problem: Strings
    family: Strings
    backend: Strings
    split: Strings
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
