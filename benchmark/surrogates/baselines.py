"""What little knowledge scores: `uniform`, `prior`, `length`, `roofline`, `transfer`, and `replay` of a file."""

from __future__ import annotations

import functools
import itertools
import json
import math
import statistics
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.asked import KINDS, of_gpu
from kbench.benchmark.surrogates.broad import widened
from kbench.benchmark.surrogates.forecasts import DATASET_KEY, LEARNED_KEY, check_repeats, read_forecasts
from kbench.benchmark.surrogates.online import distribution
from kbench.benchmark.surrogates.protocol import failure
from kbench.loaders.source.normalise import normalised
from kbench.schemas import Forecast, PairKind, Query, Question, Status, UserError, bins

Shares = tuple[float, ...]
ELSEWHERE = np.array([0.25])
"""Share of an answer about a problem that is not ours that is believed, where only our problems were learnt from; it is
enough to keep the order."""
GROUPS = 8
"""Quantile groups of the number, within each kind of pair."""
DEFAULT_BANDWIDTH_GBS = 2000.0
DEFAULT_TFLOPS = 60.0
LAUNCH_US = 3.0
"""What a launch costs: below it neither arithmetic nor memory decides."""
COLUMNS = ["problem_id", "backend", "gpu", "source", "normalised", "status", "runtime_us", "speedup"]
USUAL_SPREAD = 0.2
"""Standard deviation of a log speedup between two GPUs, where training has one GPU and shows none."""
LEAST_SPREAD = 0.02
MIXED_IN = 0.05
"""Weight of the prior: some kernels move further than a normal distribution allows."""
VALID_AGAIN, VALID_ANEW = 0.99, 0.05
"""Probability that a kernel is correct that was, and was not, on the training GPUs."""
Key = tuple[str, str, str]
"""Problem, backend and normalised source."""
Figures = Mapping[str, tuple[float, float] | None]
"""Runtime and speedup by GPU; None where the kernel failed."""


def shares(numbers: Sequence[int], pairs: Sequence[int] | None = None) -> Shares:
    """Frequencies of the bins, with one pseudo-pair per bin so that none is impossible.

    Each number stands for one pair, or for as many as `pairs` says.
    """
    counts = np.bincount(np.asarray(numbers, dtype=np.int64), pairs, minlength=bins.COUNT + 1)[1:] + 1.0
    return tuple((counts / counts.sum()).tolist())


class UniformSurrogate:
    """Gives every bin one eighth."""

    inputs = "source"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """One eighth each."""
        eighths = shares(())
        return [Forecast(query_id=query.query_id, probabilities=eighths) for query in queries]


class PriorSurrogate:
    """Answers with the frequency of each bin in training, by kind of pair."""

    inputs = "source"

    def __init__(self) -> None:
        self._shares: dict[PairKind, Shares] = dict.fromkeys(PairKind, shares(()))

    def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        """Count bins by kind."""
        self._count((query.kind, question.bin, 1) for query, question in train if question.bin is not None)

    def fit_corpus(self, corpus: Any) -> None:
        """Count bins by kind straight from the table of questions: the sources are not needed.

        On the GPU asked about; on all of them where training has none of it, as when it is held out.
        """
        columns = ["kind", "bin", "gpu", "workload"]
        groups = [
            row
            for part in corpus.batches("questions", columns=columns, split=["train", "validation"])
            for row in part.group_by(columns).aggregate([([], "count_all")]).to_pylist()
            if row["workload"] is None and row["bin"] is not None
        ]
        groups_of_gpu = of_gpu(groups, corpus) or groups
        self._count((PairKind(KINDS[row["kind"]]), row["bin"], row["count_all"]) for row in groups_of_gpu)

    def _count(self, groups: Iterable[tuple[PairKind, int, int]]) -> None:
        """Take so many pairs of a kind and bin each."""
        counted = list(groups)
        for kind in PairKind:
            numbers = [number for of, number, _ in counted if of is kind]
            self._shares[kind] = shares(numbers, [pairs for of, _, pairs in counted if of is kind])

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The frequencies of the query's kind."""
        return [Forecast(query_id=query.query_id, probabilities=self._shares[query.kind]) for query in queries]


class BinnedSurrogate(ABC):
    """Subclasses say which number; the rest is counting."""

    inputs = "source"

    def __init__(self) -> None:
        self._cuts: dict[PairKind, Floats] = {kind: np.zeros(0) for kind in PairKind}
        self._shares: dict[PairKind, Floats] = {kind: np.full((1, bins.COUNT), 1 / bins.COUNT) for kind in PairKind}
        self._learnt_from_ours = False

    @abstractmethod
    def number(self, query: Query) -> float:
        """The number looked at."""

    def fit(self, train: Sequence[tuple[Query, Question]]) -> None:
        """Cut the number at its quantiles and count bins in every group."""
        self._learnt_from_ours = all(query.problem_id in known() for query, _ in train)
        for kind in PairKind:
            rows = [(self.number(query), pair.bin) for query, pair in train if query.kind is kind]
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
        forecasts = []
        for query in queries:
            group = np.searchsorted(self._cuts[query.kind], self.number(query), side="right")
            frequencies: Floats = self._shares[query.kind][group]
            if self._learnt_from_ours and query.problem_id not in known():
                frequencies = widened(frequencies[None], [query.kind], ELSEWHERE)[0]
            forecasts.append(Forecast(query_id=query.query_id, probabilities=tuple(frequencies.tolist())))
        return forecasts


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


class TransferSurrogate:
    """Looks up both kernels' figures on the training GPUs.

    It knows more than others may: the labels of the very kernels it is asked about, from GPUs that are not asked about.
    """

    inputs = "labels of other GPUs"

    def __init__(self) -> None:
        self._prior = PriorSurrogate()
        self._known: dict[Key, dict[str, tuple[float, float] | None]] = {}
        self._spread = USUAL_SPREAD

    def fit_corpus(self, corpus: Any) -> None:
        """Remember every kernel's figures on the training GPUs."""
        if not hasattr(corpus, "elsewhere"):
            raise UserError("transfer answers for a GPU that is left out of training, and here none is left out")
        self._prior.fit_corpus(corpus)
        self._known = {}
        for row in corpus.elsewhere(COLUMNS).to_pylist():
            timed = row["status"] == Status.OK and row["runtime_us"] and row["speedup"]
            key = (row["problem_id"], row["backend"], row["normalised"] or normalised(row["source"]))
            self._known.setdefault(key, {})[row["gpu"]] = (row["runtime_us"], row["speedup"]) if timed else None
        self._spread = spread_between_gpus(self._known.values())

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """A log-normal distribution around the speedup there, or the prior where it is not known."""
        return [self._answer(query, prior) for query, prior in zip(queries, self._prior.forecast(queries), strict=True)]

    def _answer(self, query: Query, prior: Forecast) -> Forecast:
        assert prior.probabilities is not None
        candidate = self._figures(query, query.candidate_source)
        valid = None if not candidate else VALID_AGAIN if any(candidate.values()) else VALID_ANEW
        speedup = self._speedup(query, candidate)
        if speedup is None:
            return Forecast(query_id=query.query_id, probabilities=prior.probabilities, p_valid=valid)
        shares = distribution(math.log2(speedup), self._spread / math.log(2))
        mixed = tuple(
            MIXED_IN * usual + (1 - MIXED_IN) * share for usual, share in zip(prior.probabilities, shares, strict=True)
        )
        return Forecast(query_id=query.query_id, probabilities=mixed, speedup=speedup, p_valid=valid)

    def _figures(self, query: Query, source: str) -> Figures:
        return self._known.get((query.problem_id, query.backend.value, source), {})

    def _speedup(self, query: Query, candidate: Figures) -> float | None:
        """The mean over the GPUs on which both kernels ran."""
        if query.kind is PairKind.REFERENCE:
            logs = [math.log(one[1]) for one in candidate.values() if one is not None]
        else:
            anchor = self._figures(query, query.anchor_source)
            ends = [(anchor.get(gpu), one) for gpu, one in candidate.items()]
            logs = [math.log(a[0] / b[0]) for a, b in ends if a is not None and b is not None]
        return math.exp(statistics.fmean(logs)) if logs else None


def spread_between_gpus(known: Iterable[Figures]) -> float:
    """How far log speedups over the reference lie apart between two training GPUs."""
    gaps = [
        math.log(one[1] / other[1])
        for figures in known
        for one, other in itertools.combinations(figures.values(), 2)
        if one is not None and other is not None
    ]
    return max(LEAST_SPREAD, statistics.pstdev(gaps, 0.0)) if len(gaps) > 1 else USUAL_SPREAD


class ReplaySurrogate:
    """Answers with the forecasts of a file; what the file does not hold is a failure."""

    times_itself = True
    """Reading a file is not what a forecast took; the file says that, or nobody knows."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.inputs = self._submission.get("inputs", "source")

    @property
    def repeats(self) -> int:
        """Repeats the file holds."""
        return max((repeat for _, repeat in self._forecasts), default=0) + 1

    def check_dataset(self, fingerprint: str) -> None:
        """Refuse forecasts made for other data."""
        dataset = (read_forecasts(self.path).schema.metadata or {}).get(DATASET_KEY, b"").decode()
        dataset = dataset or str(self._submission.get("dataset_fingerprint", ""))
        if dataset and dataset != fingerprint:
            raise UserError(
                f"{self.path} holds forecasts for dataset {dataset}, this is {fingerprint}; evaluate them on their own"
            )

    def learned_from(self, splits: tuple[str, ...]) -> tuple[str, ...] | None:
        """What the forecaster learned from, as the file says; None where it does not."""
        stated = (read_forecasts(self.path).schema.metadata or {}).get(LEARNED_KEY)
        return None if stated is None else tuple(name for name in stated.decode().split(",") if name)

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """The stored forecasts of these queries."""
        stored = self._forecasts
        keys = [(query.query_id, repeat) for query in queries for repeat in range(self.repeats)]
        return [stored.get(key) or failure(key[0], "the file holds no forecast of this query", key[1]) for key in keys]

    @functools.cached_property
    def _submission(self) -> dict[str, Any]:
        path = self.path.parent / "submission.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @functools.cached_property
    def _forecasts(self) -> dict[tuple[str, int], Forecast]:
        table = read_forecasts(self.path)
        check_repeats(table, str(self.path))
        forecasts: dict[tuple[str, int], Forecast] = {}
        for values in table.to_pylist():
            values["repeat"] = values["repeat"] or 0
            probabilities = values["probabilities"]
            values["probabilities"] = None if probabilities is None else tuple(probabilities)
            key = (str(values["query_id"]), values["repeat"])
            if key in forecasts:
                raise UserError(f"{self.path} holds query {key[0]} repeat {key[1]} twice; keep one of them")
            forecasts[key] = Forecast(**values)
        return forecasts
