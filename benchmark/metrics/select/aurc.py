"""Area under the risk–coverage curve, and how much of it better confidences could remove."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, as_vectors
from kbench.benchmark.metrics.select.risk_coverage import shared_losses


def area(ordered: Floats, rows: int) -> float:
    """Trapezoid area under the running mean of losses, over coverage of all `rows`; level before the first row."""
    if not rows:
        return float("nan")
    if not len(ordered):
        return 0.0
    risk = np.cumsum(ordered) / np.arange(1, len(ordered) + 1)
    return float((risk[0] + np.sum((risk[1:] + risk[:-1]) / 2)) / rows)


def aurc(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> float:
    """Area under risk over coverage, unnormalised: rows that were never answered add nothing."""
    losses, confidences = as_vectors(loss, confidence)
    return area(shared_losses(losses, confidences), len(losses))


def excess_aurc(loss: npt.ArrayLike, confidence: npt.ArrayLike) -> float:
    """AURC minus that of the best possible order of the same answers: 0 when confidence knows every miss."""
    losses, confidences = as_vectors(loss, confidence)
    ideal = np.sort(losses[~np.isnan(confidences)])
    return aurc(losses, confidences) - area(ideal, len(losses))
