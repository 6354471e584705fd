"""`transfer`: the speedup is what it was on the training GPUs."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kbench.benchmark.surrogates.baselines.prior import PriorSurrogate
from kbench.loaders.source.stripped import stripped
from kbench.schemas import Forecast, PairKind, Query, Status, UserError, bins

COLUMNS = ["problem_id", "backend", "gpu", "source", "status", "runtime_us", "speedup"]
USUAL_SPREAD = 0.2
"""Standard deviation of a log speedup between two GPUs, where training has one GPU and shows none."""
LEAST_SPREAD = 0.02
MIXED_IN = 0.05
"""Weight of the prior: some kernels move further than a normal distribution allows."""
VALID_AGAIN, VALID_ANEW = 0.99, 0.05
"""Probability that a kernel is correct that was, and was not, on the training GPUs."""

Key = tuple[str, str, str]
"""Problem, backend and source without comments."""
Figures = Mapping[str, tuple[float, float] | None]
"""Runtime and speedup by GPU; None where the kernel failed."""


class TransferSurrogate:
    """Looks up both kernels' figures on the training GPUs.

    It knows more than others may: the labels of the very kernels it is asked about, from GPUs that are not asked about.
    """

    inputs = "labels of other GPUs"

    def __init__(self) -> None:
        """Know nothing until fitted."""
        self._prior = PriorSurrogate()
        self._known: dict[Key, dict[str, tuple[float, float] | None]] = {}
        self._spread = USUAL_SPREAD

    def fit_corpus(self, corpus: Any) -> None:
        """Remember every kernel's figures on the training GPUs.

        Raises:
            UserError: the corpus leaves no GPU out.
        """
        if not hasattr(corpus, "elsewhere"):
            raise UserError("transfer answers for a GPU that is left out of training, and here none is left out")
        self._prior.fit_corpus(corpus)
        self._known = {}
        for row in corpus.elsewhere(COLUMNS).to_pylist():
            timed = row["status"] == Status.OK and row["runtime_us"] and row["speedup"]
            key = (row["problem_id"], row["backend"], stripped(row["source"]))
            self._known.setdefault(key, {})[row["gpu"]] = (row["runtime_us"], row["speedup"]) if timed else None
        self._spread = moved(self._known.values())

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """A log-normal distribution around the speedup there, or the prior where it is not known."""
        priors = self._prior.forecast(queries)
        return [self._answer(query, prior) for query, prior in zip(queries, priors, strict=True)]

    def _answer(self, query: Query, prior: Forecast) -> Forecast:
        assert prior.probabilities is not None
        candidate = self._figures(query, query.candidate_source)
        valid = None if not candidate else VALID_AGAIN if any(candidate.values()) else VALID_ANEW
        speedup = self._speedup(query, candidate)
        if speedup is None:
            return Forecast(query_id=query.query_id, probabilities=prior.probabilities, p_valid=valid)
        shares = normal_shares(math.log(speedup), self._spread)
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


def moved(known: Iterable[Figures]) -> float:
    """How far log speedups over the reference lie apart between two training GPUs."""
    gaps = [
        math.log(one[1] / other[1])
        for figures in known
        for one, other in itertools.combinations(figures.values(), 2)
        if one is not None and other is not None
    ]
    return max(LEAST_SPREAD, statistics.pstdev(gaps, 0.0)) if len(gaps) > 1 else USUAL_SPREAD


def normal_shares(centre: float, spread: float) -> tuple[float, ...]:
    """Probability of each bin when the log speedup is normally distributed."""
    normal = statistics.NormalDist(centre, spread)
    below = [0.0, *(normal.cdf(math.log(edge)) for edge in bins.EDGES), 1.0]
    return tuple(high - low for low, high in itertools.pairwise(below))
