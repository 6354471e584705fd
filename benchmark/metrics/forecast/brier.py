"""Brier score, the half form: ½Σ(p − y)², from 0 to 1."""

from __future__ import annotations

import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, Ints, by_chunks, check, given_to, mean, row_sum


def _half(values: Floats, numbers: Ints) -> Floats:
    # ½(Σp² − 2p_y + 1) avoids building the one-hot matrix.
    result: Floats = 0.5 * (row_sum(values * values) - 2.0 * given_to(values, numbers) + 1.0)
    return result


def brier_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Half-Brier of every row."""
    return by_chunks(_half, *check(probabilities, bins))


def brier(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean half-Brier; lower is better."""
    return mean(brier_rows(probabilities, bins))
