"""`length` and `roofline`: one number of a query, and the bin frequencies of training pairs with a similar number."""

from __future__ import annotations

import functools
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import Forecast, Pair, PairKind, Query, bins

GROUPS = 8
"""Quantile groups of the number, within each kind of pair."""
DEFAULT_BANDWIDTH_GBS = 2000.0
DEFAULT_TFLOPS = 60.0
LAUNCH_US = 3.0
"""What a launch costs: below it neither arithmetic nor memory decides."""


class BinnedSurrogate(ABC):
    """Subclasses say which number; the rest is counting."""

    inputs = "source"

    def __init__(self) -> None:
        """Uniform until fitted."""
        self._cuts: dict[PairKind, Floats] = {kind: np.zeros(0) for kind in PairKind}
        self._shares: dict[PairKind, Floats] = {kind: np.full((1, bins.COUNT), 1 / bins.COUNT) for kind in PairKind}

    @abstractmethod
    def number(self, query: Query) -> float:
        """The number looked at."""

    def fit(self, train: Sequence[tuple[Query, Pair]]) -> None:
        """Cut the number at its quantiles and count bins in every group."""
        for kind in PairKind:
            rows = [(self.number(query), pair.bin) for query, pair in train if pair.kind is kind]
            if not rows:
                continue
            numbers, labels = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
            cuts = np.unique(np.quantile(numbers, np.arange(1, GROUPS) / GROUPS))
            group = np.searchsorted(cuts, numbers, side="right")
            counts = np.zeros((len(cuts) + 1, bins.COUNT))
            np.add.at(counts, (group, labels - 1), 1.0)
            overall = counts.sum(axis=0) + 1.0
            # Small groups lean on the kind's own frequencies.
            counts += 8.0 * overall / overall.sum()
            self._cuts[kind], self._shares[kind] = cuts, counts / counts.sum(axis=1, keepdims=True)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """Frequencies of the query's group."""
        return [Forecast(query_id=q.query_id, probabilities=tuple(self._of(q).tolist())) for q in queries]

    def _of(self, query: Query) -> Floats:
        group = np.searchsorted(self._cuts[query.kind], self.number(query), side="right")
        found: Floats = self._shares[query.kind][group]
        return found


class LengthSurrogate(BinnedSurrogate):
    """What counting characters scores: longer sources are more specialised, or so the naive reader hopes."""

    def number(self, query: Query) -> float:
        """Log ratio of the candidate's length to the anchor's."""
        return math.log((len(query.candidate_source) + 1) / (len(query.anchor_source) + 1))


@functools.lru_cache(maxsize=4096)
def floor_us(workloads_json: str, gpu_facts_json: str) -> float:
    """Geometric mean over workloads of the least time any kernel needs, in microseconds."""
    facts = json.loads(gpu_facts_json)
    bandwidth = facts.get("bandwidth_gbs") or DEFAULT_BANDWIDTH_GBS
    tflops = facts.get("fp32_tflops") or DEFAULT_TFLOPS
    times = [
        max(work["min_bytes"] / bandwidth / 1e3, work["flops"] / tflops / 1e6) + LAUNCH_US
        for work in json.loads(workloads_json)
    ]
    return math.exp(sum(map(math.log, times)) / len(times)) if times else LAUNCH_US


class RooflineSurrogate(BinnedSurrogate):
    """What the problem alone says: short problems lose time on launches, long ones leave little to gain."""

    def number(self, query: Query) -> float:
        """Log of the roofline's floor."""
        return math.log(floor_us(query.workloads_json, query.gpu_facts_json))
