"""Accuracy: how often the most probable bin, or its side of 1, is the correct one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Booleans, Floats, check, mean
from kbench.benchmark.metrics.metric import Better, Ceiling, Metric, Shown
from kbench.benchmark.metrics.rows import mean_over_pairs
from kbench.benchmark.tracks import FORECAST
from kbench.schemas.bins import NUMBERS


def modes(values: Floats) -> Booleans:
    """Which bins of each row are its most probable ones."""
    result: Booleans = values == values.max(axis=1, keepdims=True, initial=0.0)
    return result


def correct(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is the correct bin when tied modes are drawn among at random.

    Sharing ties keeps the uniform forecast at 1/8 whatever order the bins are stored in.
    """
    values, numbers = check(probabilities, bins)
    tied = modes(values)
    result: Floats = tied[np.arange(len(values)), numbers - 1] / tied.sum(axis=1)
    return result


def accuracy(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is correct."""
    return mean(correct(probabilities, bins))


ACCURACY = Metric(
    name="accuracy", track=FORECAST, label="Accuracy",
    meaning="Share of pairs whose most probable bin is the correct one.",
    figure=mean_over_pairs(correct), better=Better.HIGH, shown=Shown.BOARD, ceiling=Ceiling.BINDING, sliced=True,
)  # fmt: skip


def near(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> Floats:
    """Per row, the chance that the mode is at most one bin off, tied modes drawn among at random."""
    values, numbers = check(probabilities, bins)
    tied = modes(values)
    close = np.abs(np.asarray(NUMBERS) - numbers[:, None]) <= 1
    result: Floats = (tied & close).sum(axis=1) / tied.sum(axis=1)
    return result


def within_one(probabilities: npt.ArrayLike, bins: npt.ArrayLike) -> float:
    """Share of rows whose most probable bin is at most one bin off."""
    return mean(near(probabilities, bins))


WITHIN_ONE = Metric(
    name="within_one", track=FORECAST, label="Within one bin",
    meaning="Share of pairs whose most probable bin is at most one bin off.",
    figure=mean_over_pairs(near), better=Better.HIGH, shown=Shown.BOARD, sliced=True,
)  # fmt: skip


SIGN_ACCURACY = Metric(
    name="sign_accuracy", track=FORECAST, label="Sign accuracy",
    meaning="Share of pairs for which 'faster or slower than the anchor' is answered correctly.",
    figure=lambda bootstrap, rows: bootstrap.mean(1.0 - rows.sign_loss), better=Better.HIGH, shown=Shown.TERMINAL,
)  # fmt: skip
