"""Noise ceiling: what a second measurement, on another machine, would score against the first.

Each record's interval says how far a repeat on the same machine may fall from it; machines differ by a little more.
The oracle draws one repeat per record from both and forecasts the distribution that the repeat's own interval implies,
so it loses by measurement noise alone.
"""

from __future__ import annotations

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.schemas import bins

Z95 = 1.959963984540054


MACHINE_LOG_SIGMA = 0.008
"""Standard deviation between machines of the logarithm of a runtime or speedup, which intervals do not hold: with it,
3 % of repeated runtimes and 5 % of repeated speedups lie outside; without it, 15 % do (docs/results/intervals.md)."""


def log_sigma(low: Floats, high: Floats) -> Floats:
    """Standard deviation of the logarithm that a 95 % interval and another machine imply; 0 without an interval."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sigma = np.log(high / low) / (2 * Z95)
    return np.where(np.isfinite(sigma), np.hypot(np.maximum(sigma, 0.0), MACHINE_LOG_SIGMA), 0.0)


def remeasured(value: Floats, low: Floats, high: Floats, generator: np.random.Generator) -> Floats:
    """One repeat of every measurement."""
    result: Floats = value * np.exp(log_sigma(low, high) * generator.standard_normal(len(value)))
    return result


def interval_distribution(speedup: Floats, sigma: Floats) -> Floats:
    """Probability of each bin when log speedup is normal around a measurement: [rows, 8]."""
    from scipy.special import ndtr

    # A difference of two measurements is wider than one by √2; the floor keeps an exact record from dividing by zero.
    width = np.maximum(sigma * np.sqrt(2.0), 1e-9)[:, None]
    below = ndtr((np.log(bins.EDGES)[None, :] - np.log(speedup)[:, None]) / width)
    edges = np.concatenate([np.zeros((len(speedup), 1)), below, np.ones((len(speedup), 1))], axis=1)
    # The last bits of the normal distribution depend on the processor, and ties between confidences depend on them.
    result: Floats = np.round(np.diff(edges, axis=1), 12).astype(np.float64, copy=False)
    return result


def oracle_forecasts(speedup: Floats, low: Floats, high: Floats, generator: np.random.Generator) -> Floats:
    """The oracle's distribution for every pair."""
    return interval_distribution(remeasured(speedup, low, high, generator), log_sigma(low, high))
