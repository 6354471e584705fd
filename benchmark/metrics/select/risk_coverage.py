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
    kept = confidence[answered]
    order = np.argsort(-kept, kind="stable")
    ordered, ranked = loss[answered][order], kept[order]
    if not len(ranked):
        return ordered
    group = np.concatenate([[0], np.cumsum(ranked[1:] != ranked[:-1])])
    means = np.bincount(group, weights=ordered) / np.bincount(group)
    result: Floats = means[group]
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


def coverage_at_risk(loss: npt.ArrayLike, confidence: npt.ArrayLike, risk: float) -> float:
    """Largest share of rows that can be answered with at most this risk; 0 when there is none."""
    curve = risk_coverage_curve(loss, confidence)
    allowed = np.flatnonzero(curve.risk <= risk + 1e-12)
    return float(curve.coverage[allowed[-1]]) if len(allowed) else 0.0
