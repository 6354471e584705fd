"""Interval: a mean of round values with a 95 % interval that allows for correlated rounds and other processes."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

CUT = 6
"""One part in this many is cut off at each end."""
CONFIDENCE = 0.95
LARGEST_CORRELATION = 0.8
"""Estimates of the lag-1 correlation above this are clipped: five rounds cannot tell 0.8 from 1."""
PROCESS_SIGMA = 0.002
"""Standard deviation of the log time between processes on one idle machine; no number of rounds averages it away."""
PROCESS_SIGMA_US = 0.08
"""The same for the part that does not scale with the time: how far the two marks lie from the kernel. It is common to
all kernels of a process; what is left of it once the null kernel's time has been subtracted (docs/evidence/harness)."""


def centre(values: Sequence[float]) -> float:
    """Mean of what is left when the extremes at both ends are cut off; of three values, the middle one.

    Times of short calls form two clusters (see timing/batch.py). A median jumps from one to the other; a mean moves
    with the share of each, and trimming keeps the rare outlier out.
    """
    ordered = sorted(values)
    cut = max(1, len(ordered) // CUT) if len(ordered) > 2 else 0
    kept = ordered[cut : len(ordered) - cut]
    return math.fsum(kept) / len(kept)


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """A positive figure with its interval, of 95 % unless said otherwise."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the interval's width, relative to the figure."""
        return (self.high - self.low) / (2.0 * self.value)


def log_interval(logs: Sequence[float], extra_sigma: float = 0.0, confidence: float = CONFIDENCE) -> Interval:
    """Interval of exp(mean) for round values given as logarithms.

    Args:
        logs: one value per round, at least two.
        extra_sigma: standard deviation that does not shrink with the number of rounds.
        confidence: probability that the interval holds the true value.
    """
    count = len(logs)
    mean = math.fsum(logs) / count
    variance = math.fsum((value - mean) ** 2 for value in logs) / (count - 1)
    error = variance / count * inflation(logs)
    student, normal = student_quantile(count - 1, confidence), student_quantile(math.inf, confidence)
    half = math.sqrt(student**2 * error + normal**2 * extra_sigma**2)
    return Interval(math.exp(mean), math.exp(mean - half), math.exp(mean + half))


def inflation(values: Sequence[float]) -> float:
    """How much larger the variance of the mean is than for independent values: (1 + rho) / (1 - rho)."""
    # The estimate is too low by about 1/n for n values.
    rho = min(max(lag_one_correlation(values) + 1.0 / len(values), 0.0), LARGEST_CORRELATION)
    return (1.0 + rho) / (1.0 - rho)


def lag_one_correlation(values: Sequence[float]) -> float:
    """Correlation of each value with the next; 0 when nothing varies."""
    mean = math.fsum(values) / len(values)
    centred = [value - mean for value in values]
    power = math.fsum(value * value for value in centred)
    if power == 0.0:
        return 0.0
    return math.fsum(one * two for one, two in itertools.pairwise(centred)) / power


def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """The two-sided critical value of Student's t; of the normal distribution for infinite degrees of freedom."""
    from scipy.special import ndtri, stdtrit

    tail = 0.5 + confidence / 2.0
    return float(ndtri(tail) if math.isinf(freedom) else stdtrit(freedom, tail))


def process_sigma(runtime_us: float) -> float:
    """Standard deviation of the log time between processes, for a kernel of this length."""
    return math.hypot(PROCESS_SIGMA, PROCESS_SIGMA_US / runtime_us)
