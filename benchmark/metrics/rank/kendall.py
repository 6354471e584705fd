"""Kendall's tau-b of forecasts and answers."""

from __future__ import annotations

import math

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import as_vectors


def kendall(scores: npt.ArrayLike, speeds: npt.ArrayLike) -> float:
    """Concordant minus discordant pairs, corrected for ties; 0 when either is constant, NaN for fewer than two rows."""
    from scipy.stats import kendalltau

    predicted, true = as_vectors(scores, speeds)
    if len(predicted) < 2:
        return float("nan")
    tau = float(kendalltau(predicted, true).statistic)
    return 0.0 if math.isnan(tau) else tau
