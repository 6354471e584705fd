"""Brier score, the half form: ½Σ(p − y)², from 0 to 1."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats, check, mean


def brier_rows(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Half-Brier of every row."""
    values, numbers = check(probabilities, bins)
    # ½(Σp² − 2p_y + 1) avoids building the one-hot matrix.
    hit = values[np.arange(len(values)), numbers - 1]
    result: Floats = 0.5 * (np.einsum("ij,ij->i", values, values) - 2.0 * hit + 1.0)
    return result


def brier(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Mean half-Brier; lower is better."""
    return mean(brier_rows(probabilities, bins))
