"""Questions: the frozen list of queries of one split, which track asks which, and the answers kept apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions.asked import ONE_WORKLOAD
from kbench.benchmark.questions.labels import PairLabels, PoolLabels
from kbench.benchmark.tracks import PAIR_TRACKS, VALIDITY
from kbench.schemas import PairKind, Query, UnknownNameError
from kbench.schemas.ids import content_hash

# The published release labelled by our bins and told its models these edges. A forecaster that obeyed the prompt is
# judged fairly only against labels cut the same way, so published forecasts are scored both ways.
PROMPT_EDGES_NAME = "published-prompt"
"""What results call them."""
PROMPT_EDGES = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
"""An upper edge belongs to the bin below it."""


@dataclasses.dataclass(frozen=True, slots=True)
class TrackQueries:
    """One track's queries, in a fixed order, and the fingerprint that names exactly them."""

    track: str
    query_ids: tuple[str, ...]
    fingerprint: str


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
    valid_rate: float
    """Share of valid kernels in training: stands in for a missing P(valid)."""
    measure_seconds: float | None
    """Mean GPU-seconds one measurement of the split's kernels took; None when the corpus does not say."""
    trained: bool = True
    """Whether the corpus has training pairs; without them priors are uniform."""
    limited: bool = False
    """Whether queries were dropped by a limit."""
    benchmark: int | None = None
    """The version of the benchmark that drew the pairs; None where the corpus states them itself."""
    shots: int = 0
    """Most measured kernels that a query names."""
    subset: str | None = None
    """`core` where these are a fixed part of the split's questions."""
    gpu: str | None = None
    """The GPU that they are about; None for every GPU of the corpus."""

    def task(self, track: str) -> TrackQueries:
        """One track.

        Raises:
            UnknownNameError: for a track that is not asked here.
        """
        if track not in self.tracks:
            raise UnknownNameError("track", track, self.tracks)
        ids = tuple(self.queries[i].query_id for i in self.asked(track).tolist())
        version = [] if self.benchmark is None else [f"benchmark {self.benchmark}"]
        version += [f"{self.shots} shots"] if self.shots else []
        return TrackQueries(track, ids, content_hash("task", *version, self.dataset, self.split, track, *ids))

    def core(self) -> Questions:
        """The part of the answers that is in core; queries and their positions stay."""
        pairs, pools = self.pairs.take(self.pairs.core), self.pools.take(self.pools.core)
        return dataclasses.replace(self, pairs=pairs, pools=pools, subset="core")

    @property
    def counted_pairs(self) -> npt.NDArray[np.bool_]:
        """Which pairs every figure counts: in benchmark 3 those of two kernels over all workloads."""
        if self.benchmark != 3:
            return np.ones(len(self.pairs), dtype=np.bool_)
        relation = self.pairs.relation
        return np.array([each not in (ONE_WORKLOAD, PairKind.REFERENCE) for each in relation], dtype=np.bool_)

    def over_all_workloads(self) -> Questions:
        """The part of the pairs that every figure counts; queries and their positions stay."""
        counted = self.counted_pairs
        return self if counted.all() else dataclasses.replace(self, pairs=self.pairs.take(counted))

    def asked(self, track: str) -> Ints:
        """Positions of the queries one track asks.

        A track also asks what has no answer to score: were kernels that failed left out of the forecasts' queries,
        their absence would tell.
        """
        if track in PAIR_TRACKS:
            return self.pair_queries
        if track == VALIDITY.name:
            return np.unique(self.pools.query[self.pools.asked_valid])
        return np.unique(self.pools.query)

    def tasks(self) -> Mapping[str, TrackQueries]:
        """Every track by name."""
        return {track: self.task(track) for track in self.tracks}

    @property
    def fingerprint(self) -> str:
        """Names the corpus, the split, the tracks and every query."""
        return content_hash("questions", *(task.fingerprint for task in self.tasks().values()))


def with_prompt_edges(questions: Questions) -> Questions:
    """The same questions with answers cut at the prompt's edges."""
    numbers = np.searchsorted(np.asarray(PROMPT_EDGES), questions.pairs.speedup, side="left") + 1
    return dataclasses.replace(questions, pairs=dataclasses.replace(questions.pairs, bin=numbers.astype(np.int64)))
