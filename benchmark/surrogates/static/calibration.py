"""From a point and a width to eight probabilities, by the errors made on problems that were held out in training."""

from __future__ import annotations

import dataclasses

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import bins

LOG_EDGES = np.log2(np.asarray(bins.EDGES))
POINTS = 201
FLOOR = 2e-3
"""Least probability of a bin, before normalising: no bin is impossible."""


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
        result: Floats = np.interp(values, grid, np.concatenate([[0.0], shares, [1.0]]))
        return result


def probabilities(point: Floats, width: Floats, shape: ErrorShape) -> Floats:
    """Probability of each bin for log2 speedups that lie around `point`: [rows, 8]."""
    below = shape.below((LOG_EDGES[None, :] - point[:, None]) / width[:, None])
    edges = np.concatenate([np.zeros((len(point), 1)), below, np.ones((len(point), 1))], axis=1)
    shares = np.maximum(np.diff(edges, axis=1), 0.0) + FLOOR
    result: Floats = shares / shares.sum(axis=1, keepdims=True)
    return result
