"""`online`: a Gaussian process over token counts, fitted to the known kernels of each query.

It needs nothing but numpy and milliseconds. Searches use its features and distances in a process over genes.
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


NOISE = 0.1
"""Variance of the target that tokens cannot explain, relative to the variance of the target."""
TYPICAL_SPREAD = 0.7
"""Standard deviation of log2 speedup within a pool."""
DOUBT = 2.0
"""Imagined kernels whose speed spreads as in a typical pool, beside the known ones."""


class OnlineSurrogate:
    """Forecasts log2 speedup with a standard error, from what a query's known kernels reached."""

    inputs = "source"

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        """A distribution for each query that names known kernels; a failure for one that names none."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Forecast:
        if not query.known:
            return Forecast(
                query_id=query.query_id,
                failure="nothing measured yet to learn from; kbench evaluate shows known kernels with --shots 8",
            )
        sources = [kernel.source for kernel in query.known]
        targets = np.log2([kernel.speedup for kernel in query.known])
        if query.kind is PairKind.REFERENCE:
            (mean,), (error,) = predict(sources, targets, [query.candidate_source])
        else:
            (own, anchor), errors = predict(sources, targets, [query.candidate_source, query.anchor_source])
            # Both errors are counted in full: kernels that are alike err alike, but how much is not known.
            mean, error = own - anchor, math.hypot(*errors)
        # Every known kernel is correct: nothing here says that this one may fail.
        return Forecast(
            query_id=query.query_id, probabilities=distribution(mean, error), speedup=2.0**mean, p_valid=1.0
        )


def predict(sources: Sequence[str], targets: Matrix, asked: Sequence[str]) -> tuple[list[float], list[float]]:
    """Means and standard errors of what is asked, given measured sources and their log2 speedups."""
    rows = features([*sources, *asked])
    rows = rows[:, np.ptp(rows, axis=0) > 0]
    known, new = rows[: len(sources)], rows[len(sources) :]
    distances = squared_distances(known, known)
    apart = distances[distances > 1e-9]
    scale = 2 * (float(np.median(apart)) if apart.size else 1.0)
    across = np.exp(-squared_distances(new, known) / scale)
    solved = np.linalg.solve(np.exp(-distances / scale) + NOISE * np.eye(len(targets)), across.T)
    means = targets.mean() + solved.T @ (targets - targets.mean())
    shares = np.clip(1.0 + NOISE - np.einsum("ij,ji->i", across, solved), NOISE, None)
    variance = len(targets) * targets.var() + DOUBT * TYPICAL_SPREAD**2
    spread = max(math.sqrt(variance / (len(targets) + DOUBT)), 0.05)
    return means.tolist(), (np.sqrt(shares) * spread).tolist()


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
    return np.log1p(matrix)


def squared_distances(one: Matrix, other: Matrix) -> Matrix:
    """Between every row of one and every row of the other."""
    distances: Matrix = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2 * one @ other.T
    return np.maximum(distances, 0.0)


def distribution(mean: float, error: float) -> tuple[float, ...]:
    """Probability of each bin when log2 speedup is normal with this mean and standard error."""
    reached = [0.5 * (1 + math.erf((math.log2(edge) - mean) / (error * math.sqrt(2)))) for edge in bins.EDGES]
    bounds = [0.0, *reached, 1.0]
    parts = [max(0.0, high - low) for low, high in itertools.pairwise(bounds)]
    total = math.fsum(parts)
    return tuple(part / total for part in parts)
