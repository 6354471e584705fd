"""From a point and a width to eight probabilities, calibrated on problems that training held out.

Widths say how far off a point may be. They do not know that an edited kernel is seldom twice as fast as its parent, or
that forecasts between siblings are overconfident. One exponent and a weight per bin, learned for each kind of pair,
correct that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast import log_score
from kbench.schemas import PairKind, bins

LOG_EDGES = np.log2(np.asarray(bins.EDGES))
POINTS = 201
FLOOR = 2e-3
"""Least probability of a bin, before normalising: no bin is impossible."""
EXPONENTS = np.arange(0.5, 1.31, 0.05)
ROUNDS = 40
PSEUDO_ROWS = 20.0
"""Rows with the forecasts' own frequencies added to those counted, so that rare bins keep their weight."""
KINDS = tuple(PairKind)
RECALIBRATED = frozenset(PairKind) - {PairKind.REFERENCE}
"""Over the reference, the frequency of each bin depends on which problems there are and says nothing about others:
recalibration made those forecasts worse in cross-validation."""

Kinds = Sequence[PairKind] | npt.NDArray[np.object_]


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorShape:
    """Distribution of standardised errors: quantiles at equally spaced shares."""

    quantiles: Floats

    @classmethod
    def of(cls, errors: Floats) -> ErrorShape:
        """Learn it from errors divided by their predicted width."""
        shares = (np.arange(POINTS) + 0.5) / POINTS
        return cls(np.quantile(errors, shares) if len(errors) else np.linspace(-2, 2, POINTS))

    def below(self, values: Floats) -> Floats:
        """Share of errors below each value, linear between quantiles and slowly closing beyond them."""
        shares = (np.arange(POINTS) + 0.5) / POINTS
        # Strictly rising, so that interpolation is defined where many errors are equal.
        rising = self.quantiles + np.arange(POINTS) * 1e-9
        spread = max(float(rising[-1] - rising[0]), 1e-6)
        grid = np.concatenate([[rising[0] - spread], rising, [rising[-1] + spread]])
        return np.interp(values, grid, np.concatenate([[0.0], shares, [1.0]]))


def probabilities(point: Floats, width: Floats, shape: ErrorShape) -> Floats:
    """Probability of each bin for log2 speedups that lie around `point`: [rows, 8]."""
    below = shape.below((LOG_EDGES[None, :] - point[:, None]) / width[:, None])
    edges = np.concatenate([np.zeros((len(point), 1)), below, np.ones((len(point), 1))], axis=1)
    shares = np.maximum(np.diff(edges, axis=1), 0.0) + FLOOR
    return shares / shares.sum(axis=1, keepdims=True)


def _reweighted(given: Floats, exponent: float | Floats, weights: Floats) -> Floats:
    raised = given**exponent * weights
    return raised / raised.sum(axis=1, keepdims=True)


@dataclasses.dataclass(frozen=True, slots=True)
class Recalibration:
    """An exponent and eight weights for each kind of pair."""

    exponents: Floats
    """[kinds]."""
    weights: Floats
    """[kinds, 8]."""

    @classmethod
    def of(cls, given: Floats, truth: Ints, kind: Kinds) -> Recalibration:
        """Learn from forecasts and their answers; a kind without any is left alone."""
        exponents, weights = np.ones(len(KINDS)), np.ones((len(KINDS), bins.COUNT))
        kinds = np.array([KINDS.index(each) for each in kind], dtype=np.int64)
        for index in (i for i in np.unique(kinds) if KINDS[i] in RECALIBRATED):
            rows = kinds == index
            exponents[index], weights[index] = _learned(given[rows], truth[rows])
        return cls(exponents, weights)

    def applied(self, given: Floats, kind: Kinds) -> Floats:
        """The forecasts, recalibrated."""
        kinds = np.array([KINDS.index(each) for each in kind], dtype=np.int64)
        return _reweighted(given, self.exponents[kinds][:, None], self.weights[kinds])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything needed to rebuild it."""
        return {"recalibration.exponents": self.exponents, "recalibration.weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Recalibration:
        """Rebuild what `arrays` gave."""
        return cls(arrays["recalibration.exponents"], arrays["recalibration.weights"])


def _learned(given: Floats, truth: Ints) -> tuple[float, Floats]:
    """The exponent with the best log score, with weights that forecast every bin as often as it happens."""
    counted = np.bincount(truth - 1, minlength=bins.COUNT) + PSEUDO_ROWS * given.mean(axis=0)
    share = counted / counted.sum()
    candidates = []
    for exponent in EXPONENTS:
        weights = np.ones(bins.COUNT)
        for _ in range(ROUNDS):
            weights *= share / _reweighted(given, exponent, weights).mean(axis=0)
        candidates.append((log_score(_reweighted(given, exponent, weights), truth), float(exponent), weights))
    _, exponent, weights = min(candidates, key=lambda each: each[0])
    return exponent, weights / weights.mean()


def recalibrated(given: Floats, truth: Ints, kind: Kinds, fold: Ints) -> tuple[Recalibration, Floats]:
    """The recalibration learned from all rows, and every row recalibrated by what the other folds teach."""
    kinds = np.array(kind, dtype=object)
    result = given.copy()
    folds = np.unique(fold)
    for each in folds if len(folds) > 1 else ():
        held, others = fold == each, fold != each
        result[held] = Recalibration.of(given[others], truth[others], kinds[others]).applied(given[held], kinds[held])
    return Recalibration.of(given, truth, kind), result
