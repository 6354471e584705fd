"""How far kernels of a problem are from its reference on average: a linear fit, since trees overfit few problems."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats

RIDGE = 10.0
"""Chosen by cross-validation over training problems."""


def weighted(columns: Floats, weights: Floats) -> Floats:
    """Weighted sum of every row, added from the first column on.

    A matrix product may add in another order when there are other rows.
    """
    total = np.zeros(len(columns))
    for column, weight in zip(columns.T, weights, strict=True):
        total += column * weight
    return total


@dataclasses.dataclass(frozen=True, slots=True)
class Level:
    """A linear function of problem features, which are kept within what training saw."""

    low: Floats
    high: Floats
    weights: Floats
    intercept: float

    @classmethod
    def of(cls, features: npt.NDArray[Any], levels: Floats) -> Level:
        """Fit one row per problem and GPU, on features of unit variance."""
        rows = features.astype(np.float64)
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        scale = np.where(spread > 1e-9, spread, np.inf)
        unit = (rows - mean) / scale
        gram = unit.T @ unit + RIDGE * np.eye(unit.shape[1])
        weights = np.linalg.solve(gram, unit.T @ (levels - levels.mean())) / scale
        return cls(rows.min(axis=0), rows.max(axis=0), weights, float(levels.mean() - mean @ weights))

    def predict(self, features: npt.NDArray[Any]) -> Floats:
        """log2 speedup a typical kernel of the problem has."""
        return weighted(np.clip(features, self.low, self.high), self.weights) + self.intercept

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything needed to rebuild it."""
        parts = {"low": self.low, "high": self.high, "weights": self.weights, "intercept": np.array(self.intercept)}
        return {f"level.{name}": value for name, value in parts.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Level:
        """Rebuild what `arrays` gave."""
        low, high, weights = (arrays[f"level.{name}"] for name in ("low", "high", "weights"))
        return cls(low, high, weights, float(arrays["level.intercept"]))
