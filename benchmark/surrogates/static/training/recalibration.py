"""The last step: how sure and how often right, brought together for each kind of question.

Widths say how far off a point may be; they do not know that an edited kernel is seldom twice as fast as its parent, or
that answers between siblings are surer than they deserve. One exponent and a weight for each bin, learned from
forecasts of problems held out, mend that.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.metrics.forecast.log_score import log_score
from kbench.schemas import PairKind, bins

EXPONENTS = np.arange(0.5, 1.31, 0.05)
ROUNDS = 40
IMAGINED = 20.0
"""Rows of the forecasts' own frequencies added to those counted, so that rare bins keep their weight."""
KINDS = tuple(PairKind)
MENDED = frozenset(PairKind) - {PairKind.REFERENCE}
"""How often each bin happens over the reference is decided by which problems there are, and teaches nothing of others:
cross-validated, mending made those forecasts worse."""

Kinds = Sequence[PairKind] | npt.NDArray[np.object_]


def _reweighed(given: Floats, exponent: float | Floats, weights: Floats) -> Floats:
    raised = given**exponent * weights
    result: Floats = raised / raised.sum(axis=1, keepdims=True)
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class Recalibration:
    """For each kind of question an exponent and eight weights."""

    exponents: Floats
    """[kinds]."""
    weights: Floats
    """[kinds, 8]."""

    @classmethod
    def of(cls, given: Floats, truth: Ints, kind: Kinds) -> Recalibration:
        """Learn from forecasts and their answers; a kind without any is left alone."""
        exponents, weights = np.ones(len(KINDS)), np.ones((len(KINDS), bins.COUNT))
        kinds = np.array([KINDS.index(each) for each in kind], dtype=np.int64)
        for index in (i for i in np.unique(kinds) if KINDS[i] in MENDED):
            rows = kinds == index
            exponents[index], weights[index] = _learned(given[rows], truth[rows])
        return cls(exponents, weights)

    def applied(self, given: Floats, kind: Kinds) -> Floats:
        """The forecasts, mended."""
        kinds = np.array([KINDS.index(each) for each in kind], dtype=np.int64)
        return _reweighed(given, self.exponents[kinds][:, None], self.weights[kinds])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything needed to rebuild it."""
        return {"recalibration.exponents": self.exponents, "recalibration.weights": self.weights}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Recalibration:
        """Rebuild what `arrays` gave."""
        return cls(arrays["recalibration.exponents"], arrays["recalibration.weights"])


def _learned(given: Floats, truth: Ints) -> tuple[float, Floats]:
    """The exponent with the best log score, its weights such that every bin is forecast as often as it happens."""
    counted = np.bincount(truth - 1, minlength=bins.COUNT) + IMAGINED * given.mean(axis=0)
    share = counted / counted.sum()
    found = []
    for exponent in EXPONENTS:
        weights = np.ones(bins.COUNT)
        for _ in range(ROUNDS):
            weights *= share / _reweighed(given, exponent, weights).mean(axis=0)
        found.append((log_score(_reweighed(given, exponent, weights), truth), float(exponent), weights))
    _, exponent, weights = min(found, key=lambda each: each[0])
    return exponent, weights / weights.mean()


def recalibrated(given: Floats, truth: Ints, kind: Kinds, fold: Ints) -> tuple[Recalibration, Floats]:
    """What all rows teach, and every row mended by what the other folds teach."""
    kinds = np.array(kind, dtype=object)
    mended = given.copy()
    folds = np.unique(fold)
    for each in folds if len(folds) > 1 else ():
        held, others = fold == each, fold != each
        mended[held] = Recalibration.of(given[others], truth[others], kinds[others]).applied(given[held], kinds[held])
    return Recalibration.of(given, truth, kind), mended
