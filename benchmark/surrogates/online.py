"""The `online` surrogate: a Gaussian process over token counts, refitted on a search's own measurements.

It needs nothing but numpy and milliseconds, so it can sit inside a search that measures dozens of kernels per second.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kbench.schemas import Forecast, PairKind, Query, bins

Matrix = npt.NDArray[np.float64]

WIDTH = 512
TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+(?:\.\d+)?")
COMMENT = re.compile(r"#(?!\s*(?:include|define|pragma|if|else|endif|undef)\b)[^\n]*|//[^\n]*|/\*.*?\*/", re.DOTALL)
"""Comments of Python and C++, found quickly: a `#` inside a string costs a feature, a full parse costs the search."""


@functools.lru_cache(maxsize=20_000)
def _counts(source: str) -> Counter[int]:
    counts: Counter[int] = Counter()
    name = ""
    for token in TOKEN.findall(COMMENT.sub(" ", source)):
        # A number means little without the name before it: BLOCK 128 and num_warps 128 are different facts.
        word = f"{name}={token}" if token[0].isdigit() else token
        name = name if token[0].isdigit() else token
        counts[zlib.crc32(word.encode()) % WIDTH] += 1
    return counts


def features(sources: Sequence[str]) -> Matrix:
    """One row of log counts for each source; comments do not count."""
    matrix = np.zeros((len(sources), WIDTH))
    for row, source in enumerate(sources):
        counts = _counts(source)
        matrix[row, list(counts)] = list(counts.values())
    logs: Matrix = np.log1p(matrix)
    return logs


NOISE = 0.1
"""Variance of the target that tokens cannot explain, relative to the variance of the target."""
TYPICAL_SPREAD = 0.7
"""Standard deviation of log2 speedup within a pool."""
KNOWN_DOUBT = 2.0
"""Imagined kernels beside the known ones of a query."""
MOST = 128
"""Newest observations kept: the fit is cubic in their number."""


class OnlineSurrogate:
    """Forecasts log2 speedup over the reference with a standard error, and the chance of being valid."""

    inputs = "source"

    def __init__(self, doubt: float = 0.0) -> None:
        """Know nothing.

        Args:
            doubt: imagined kernels whose speed spreads as in a typical pool, for when few were measured.
        """
        self._doubt = doubt
        self._sources: list[str] = []
        self._targets: list[float | None] = []

    def learn(self, observations: Sequence[tuple[str, float | None]]) -> None:
        """Replace what is known: (source, speedup over the reference), None for a kernel that failed."""
        kept = list(observations)[-MOST:]
        self._sources = [source for source, _ in kept]
        self._targets = [math.log2(speedup) if speedup else None for _, speedup in kept]

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """A distribution for each query, learned from its known kernels where it names any.

        A failure while no correct kernel was seen.
        """
        return [forecast for query in queries for forecast in self._with_known(query)]

    def _with_known(self, query: Query) -> list[Forecast]:
        learner = self
        if query.known:
            learner = OnlineSurrogate(doubt=KNOWN_DOUBT)
            learner.learn([(kernel.source, kernel.speedup) for kernel in query.known])
        asked = [(query.query_id, query.candidate_source)]
        if query.kind is PairKind.REFERENCE or not learner._sources:
            return learner.forecast_sources(asked)
        (mean, anchor), (error, other), (valid, _) = learner._predict([query.candidate_source, query.anchor_source])
        # Both errors are counted in full: kernels that are alike err alike, but how much is not known.
        shares = distribution(mean - anchor, math.hypot(error, other))
        return [Forecast(query_id=query.query_id, probabilities=shares, speedup=2.0 ** (mean - anchor), p_valid=valid)]

    def forecast_sources(self, asked: Sequence[tuple[str, str]]) -> list[Forecast]:
        """The same for (query id, source), so that a search need not make whole queries."""
        if not any(target is not None for target in self._targets):
            reason = "nothing measured yet to learn from"
            return [Forecast(query_id=key, failure=reason) for key, _ in asked]
        means, errors, valid = self._predict([source for _, source in asked])
        return [
            Forecast(query_id=key, probabilities=distribution(mean, error), speedup=2.0**mean, p_valid=chance)
            for (key, _), mean, error, chance in zip(asked, means, errors, valid, strict=True)
        ]

    def _predict(self, sources: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
        known, asked = features(self._sources), features(sources)
        known, asked = _keep_varying(known, asked)
        scale = _typical_distance(known)
        correct = np.array([target is not None for target in self._targets])
        targets = np.array([target for target in self._targets if target is not None])
        center, spread = float(targets.mean()), self._spread(targets)
        among = _similarity(known[correct], known[correct], scale)
        across = _similarity(asked, known[correct], scale)
        solved = np.linalg.solve(among + NOISE * np.eye(len(targets)), across.T)
        means = center + solved.T @ (targets - center)
        variances = np.clip(1.0 + NOISE - np.einsum("ij,ji->i", across, solved), NOISE, None)
        weights = _similarity(asked, known, scale) ** 2
        # Two pseudo-neighbours carry the overall share, so that one failure nearby does not condemn a candidate.
        share = float(correct.mean())
        valid = (weights @ correct.astype(float) + 2 * share) / (weights.sum(axis=1) + 2)
        bounded = np.clip(valid, 0.0, 1.0)
        return means.tolist(), (np.sqrt(variances) * spread).tolist(), bounded.tolist()

    def _spread(self, targets: Matrix) -> float:
        variance = len(targets) * targets.var() + self._doubt * TYPICAL_SPREAD**2
        return max(math.sqrt(variance / (len(targets) + self._doubt)), 0.05)


def _keep_varying(known: Matrix, asked: Matrix) -> tuple[Matrix, Matrix]:
    varying = np.ptp(np.vstack([known, asked]), axis=0) > 0
    return known[:, varying], asked[:, varying]


def squared_distances(one: Matrix, other: Matrix) -> Matrix:
    """Between every row of one and every row of the other."""
    found: Matrix = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2 * one @ other.T
    return np.maximum(found, 0.0)


def _typical_distance(known: Matrix) -> float:
    distances = squared_distances(known, known)
    apart = distances[distances > 1e-9]
    return float(np.median(apart)) if apart.size else 1.0


def _similarity(one: Matrix, other: Matrix, scale: float) -> Matrix:
    found: Matrix = np.exp(-squared_distances(one, other) / (2 * scale))
    return found


def distribution(mean: float, error: float) -> tuple[float, ...]:
    """Probability of each bin when log2 speedup is normal with this mean and standard error."""
    reached = [0.5 * (1 + math.erf((math.log2(edge) - mean) / (error * math.sqrt(2)))) for edge in bins.EDGES]
    bounds = [0.0, *reached, 1.0]
    parts = [max(0.0, high - low) for low, high in itertools.pairwise(bounds)]
    total = math.fsum(parts)
    return tuple(part / total for part in parts)
