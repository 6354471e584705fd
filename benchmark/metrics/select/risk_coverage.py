"""Risk against coverage: answer the surest rows first, defer the rest, and look at the error among the answered.

A confidence of NaN is a failure to answer: always deferred, and still counted among all rows.
Rows of equal confidence share their mean loss, which is what drawing among them at random gives on average.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors


@dataclasses.dataclass(frozen=True, slots=True)
class RiskCoverageCurve:
    """Risk after each answered row, surest first."""

    coverage: Floats
    """Answered rows over all rows."""
    risk: Floats
    """Mean loss among the answered."""


def shared_losses(loss: Floats, confidence: Floats) -> Floats:
    """Losses from the surest answer on, tied rows sharing their mean; failures are left out."""
    answered = ~np.isnan(confidence)
    _, level = np.unique(-confidence[answered], return_inverse=True)
    rows = np.bincount(level)
    result: Floats = np.repeat(np.bincount(level, weights=loss[answered]) / rows, rows)
    return result


def risk_coverage_curve(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> RiskCoverageCurve:
    """The whole curve; empty when nothing was answered."""
    losses, confidences = as_vectors(loss, confidence)
    ordered = shared_losses(losses, confidences)
    count = np.arange(1, len(ordered) + 1)
    return RiskCoverageCurve(count / max(len(losses), 1), np.cumsum(ordered) / count)


def risk_at_coverage(loss: npt.ArrayLike, confidence: npt.ArrayLike, coverage: float) -> float:
    """Risk when this share of all rows is answered, linear between rows; NaN beyond what was answered."""
    curve = risk_coverage_curve(loss, confidence)
    if not len(curve.risk) or coverage > curve.coverage[-1] + 1e-12:
        return float("nan")
    return float(np.interp(coverage, curve.coverage, curve.risk))
