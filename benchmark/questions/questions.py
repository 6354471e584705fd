"""Questions, and their answers as columns: what a forecast is scored against, which never travels with a query."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions.asked import ONE_WORKLOAD, OURS
from kbench.benchmark.tracks import PAIR_TRACKS
from kbench.schemas import PairKind, Query, UnknownNameError
from kbench.schemas.ids import content_hash

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """Everything that is asked and answered on one split of one corpus."""

    dataset: str
    """Fingerprint of the corpus."""
    split: str
    queries: tuple[Query, ...]
    """Every query once, by ascending id, whichever tracks ask it."""
    tracks: tuple[str, ...]
    pair_queries: Ints
    """Positions of the queries that the tracks of pairs ask, those without an answer included."""
    pairs: PairLabels
    pools: PoolLabels
    prior: Floats
    """Bin frequencies over the training pairs: what a forecaster knows that knows nothing of a query."""
    kind_priors: Mapping[str, Floats]
    """The same for each kind of pair: the baseline of skill."""
    measure_seconds: float | None
    """Mean GPU-seconds one measurement of the split's kernels took; None when the corpus does not say."""
    trained: bool = True
    """Whether the corpus has training pairs; without them priors are uniform."""
    limited: bool = False
    """Whether queries were dropped by a limit."""
    shots: int = 0
    """Most measured kernels that a query names."""
    subset: str | None = None
    """`core` where these are a fixed part of the split's questions."""
    gpu: str | None = None
    """The GPU that they are about; None for every GPU of the corpus."""

    def core(self) -> Questions:
        """The part of the answers that is in core; queries and their positions stay."""
        pairs, pools = self.pairs.take(self.pairs.core), self.pools.take(self.pools.core)
        return dataclasses.replace(self, pairs=pairs, pools=pools, subset="core")

    @property
    def counted_pairs(self) -> npt.NDArray[np.bool_]:
        """Which pairs every figure counts: those over all workloads, and levels only of kernels of others."""
        relation, origin = self.pairs.relation, self.pairs.origin
        level = (relation == PairKind.REFERENCE) & (origin == OURS)
        return np.asarray(~level & (relation != ONE_WORKLOAD), dtype=np.bool_)

    @property
    def imported(self) -> bool:
        """Whether any pair is of kernels of others, whose frequencies of speedups are their own."""
        return bool((self.pairs.origin != OURS).any())

    def over_all_workloads(self) -> Questions:
        """The part of the pairs that every figure counts; queries and their positions stay."""
        counted = self.counted_pairs
        return self if counted.all() else dataclasses.replace(self, pairs=self.pairs.take(counted))

    def asked(self, track: str) -> Ints:
        """Positions of the queries one track asks, those without an answer included."""
        if track in PAIR_TRACKS:
            return self.pair_queries
        return np.unique(self.pools.query)

    def fingerprint_of(self, track: str) -> str:
        """Names exactly the queries of one track, in their order."""
        if track not in self.tracks:
            raise UnknownNameError("track", track, self.tracks)
        shots = [f"{self.shots} shots"] if self.shots else []
        ids = (self.queries[at].query_id for at in self.asked(track).tolist())
        return content_hash("task", *shots, self.dataset, self.split, track, *ids)

    @property
    def fingerprint(self) -> str:
        """Names the corpus, the split, the tracks and every query."""
        return content_hash("questions", *map(self.fingerprint_of, self.tracks))
