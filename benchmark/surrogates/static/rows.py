"""Rows for the trees: a kernel in its problem, and a candidate against its anchor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kbench.benchmark.surrogates.static import problem_features, source_features
from kbench.benchmark.surrogates.static.source_features import names_in
from kbench.schemas import Query

Rows = npt.NDArray[np.float32]

CROSS: tuple[str, ...] = names_in(
    "tiles waves tile_per_row threads_per_item work_per_thread persistent_waves compute_us memory_us over_floor"
)
"""Features of the kernel and its problem together, as logarithms."""
LOG2_KILO = math.log2(1000.0)
_SOURCE = {name: index for index, name in enumerate(source_features.NAMES)}
_PROBLEM = {name: index for index, name in enumerate(problem_features.NAMES)}


def _peak(fixed: Rows, problem: Rows) -> Rows:
    """log2 operations a microsecond of the units the source asks for: tensor cores by precision, or plain ones."""
    dot, exact, three = (fixed[:, _SOURCE[f"number:{name}"]] > 0 for name in ("dot", "exact", "three_pass"))
    narrow = problem[:, _PROBLEM["dtype:float32"]] < 0.5
    tensor = problem[:, _PROBLEM["problem:peak"]] + 2 * LOG2_KILO
    # tf32 runs at half the rate of 16-bit types; three passes of it at a third of that.
    tensor = tensor - np.where(three, np.log2(6.0), np.where(narrow, 0.0, 1.0))
    plain = problem[:, _PROBLEM["problem:plain_peak"]] + 2 * LOG2_KILO
    return np.where(dot & ~exact, tensor, plain).astype(np.float32)


def _cross(fixed: Rows, problem: Rows) -> Rows:
    """How the tile divides the problem: number of tiles, waves over the GPU, share of a row."""

    def source(name: str) -> Rows:
        return fixed[:, _SOURCE[f"number:{name}"]]

    outputs, row = problem[:, _PROBLEM["problem:output_elements"]], problem[:, _PROBLEM["problem:last_dim"]]
    processors = np.log2(np.maximum(problem[:, _PROBLEM["problem:sm_count"]], 1.0))
    tiles = outputs - source("tile_product")
    flops = problem[:, _PROBLEM["problem:flops"]]
    compute = flops - _peak(fixed, problem)
    memory = problem[:, _PROBLEM["problem:bytes"]] - problem[:, _PROBLEM["problem:bandwidth"]] - LOG2_KILO
    columns = (
        tiles,
        tiles - processors,
        source("tile_1") - row,
        source("threads") + tiles - outputs,
        flops - tiles - source("threads"),
        tiles - processors - source("per_sm"),
        compute,
        memory,
        np.maximum(compute, memory) - problem[:, _PROBLEM["problem:floor_us"]],
    )
    return np.stack(columns, axis=1).astype(np.float32)


class KernelRows:
    """Rows of kernels, each made once."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._vocabulary = {word: index for index, word in enumerate(vocabulary)}
        self.names: tuple[str, ...] = (
            *source_features.NAMES,
            *(f"cross:{name}" for name in CROSS),
            *problem_features.NAMES,
            *(f"word:{word}" for word in vocabulary),
        )

    def rows(self, sources: Sequence[str], queries: Sequence[Query]) -> Rows:
        """One row a kernel: its source in the problem of the query beside it."""
        if not sources:
            return np.zeros((0, len(self.names)), dtype=np.float32)
        fixed = np.stack([source_features.fixed_row(source) for source in sources])
        problem = np.stack([problem_of(query) for query in queries])
        words = source_features.vocabulary_rows(sources, self._vocabulary)
        return np.concatenate([fixed, _cross(fixed, problem), problem, words], axis=1)


def problem_of(query: Query) -> Rows:
    """The problem's features."""
    return problem_features.problem_row(query.workloads_json, query.gpu_facts_json, query.problem_text)


class Pool:
    """Distinct (source, problem, GPU) combinations of some queries, so that each is rowed and predicted once."""

    def __init__(self, queries: Sequence[Query]) -> None:
        self._index: dict[tuple[str, str, str], int] = {}
        self.sources: list[str] = []
        self.queries: list[Query] = []
        self.candidate = np.array([self._add(q.candidate_source, q) for q in queries], dtype=np.int64)
        # The PyTorch reference is no kernel: its place is never looked at.
        self.anchor = np.array(
            [self._add(q.anchor_source, q) if q.kind != "reference" else 0 for q in queries], dtype=np.int64
        )

    def places(self) -> Iterator[tuple[tuple[str, str, str], int]]:
        """Every combination with its position."""
        yield from self._index.items()

    def _add(self, source: str, query: Query) -> int:
        key = (source, query.problem_id, query.gpu)
        if key not in self._index:
            self._index[key] = len(self.sources)
            self.sources.append(source)
            self.queries.append(query)
        return self._index[key]


def pair_rows(candidate: Rows, anchor: Rows, guesses: Mapping[str, npt.NDArray[np.float64]], own: int) -> Rows:
    """Rows of pairs of kernels: what changes, what the problem is, and what the kernel models guess.

    Args:
        candidate: kernel rows.
        anchor: kernel rows.
        guesses: columns of predicted log2 ratios.
        own: how many leading columns belong to the kernel alone rather than to its problem.
    """
    extra = np.stack([column.astype(np.float32) for column in guesses.values()], axis=1)
    numbers = len(source_features.NUMBERS)
    problem = candidate[:, own : own + len(problem_features.NUMBERS)]
    return np.concatenate([extra, candidate[:, :own] - anchor[:, :own], problem, candidate[:, :numbers]], axis=1)


OWN = len(source_features.NAMES) + len(CROSS)
"""Leading columns of a kernel row that belong to the kernel."""
PROBLEM = len(problem_features.NAMES)
"""Columns after those that belong to the problem."""
