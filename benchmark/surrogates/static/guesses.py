"""What models say of each kernel, the level of its problem, and the rows made from both for pairs and for widths."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.kernel_rows import RowLayout, Rows

Places = npt.NDArray[np.int64]

GUESSES = 4
"""Leading columns of a pair's row: what the kernel models guess."""
RIDGE = 10.0
"""Chosen by cross-validation over training problems."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guesses:
    """Of each kernel, in log2."""

    total: Floats
    """Speedup over the reference."""
    within: Floats
    """Speed relative to the problem's median."""
    rank: Floats
    """The same in units of the problem's spread: what orders the kernels of one problem best."""
    level: Floats
    """Speedup of a typical kernel of the problem, by the problem alone."""

    @classmethod
    def of(
        cls,
        within: Floats,
        total: Floats,
        within_boosted: Floats,
        rank_boosted: Floats,
        total_boosted: Floats,
        level: Floats,
    ) -> Guesses:
        """Join averaged and boosted trees: they err in different ways, so their mean is better.

        Args:
            within: [kernels, 2], relative to the median and in units of the spread.
            total: over the reference.
            within_boosted: relative to the median, by boosted trees.
            rank_boosted: place among the problem's kernels as normal scores, by boosted trees.
            total_boosted: over the reference, by boosted trees.
            level: by the problem alone.
        """
        return cls(
            total=(total + total_boosted) / 2,
            within=(within[:, 0] + within_boosted) / 2,
            rank=(within[:, 1] + rank_boosted) / 2,
            level=level,
        )

    @property
    def middle(self) -> Floats:
        """log2 speedup over the reference: the mean of both ways to guess it.

        Weights learned from the few problems there are did worse on problems held out.
        """
        return (self.total + self.level + self.within) / 2

    def differences(self, pair: Floats, candidate: Places, anchor: Places) -> Floats:
        """[pairs, 4]: what the blend of a pair weighs."""
        changes = [each[candidate] - each[anchor] for each in (self.total, self.within, self.rank)]
        return np.stack([pair, *changes], axis=1)


def turned(there: Floats, back: Floats) -> Floats:
    """One guess from those of a pair and of the reversed pair, whose log ratio has the opposite sign."""
    return (there - back) / 2.0


def reference_width_rows(numbers: Rows, guesses: Guesses, point: Floats) -> Rows:
    """What the width of a forecast over the reference may depend on."""
    gap = guesses.total - guesses.level - guesses.within
    columns = (point, np.abs(point), guesses.within, guesses.rank, guesses.total, guesses.level, gap)
    return np.concatenate([np.stack(columns, axis=1).astype(np.float32), numbers], axis=1)


def pair_inputs(rows: Rows, guesses: Guesses, layout: RowLayout, candidate: Places, anchor: Places) -> Rows:
    """Rows of pairs of kernels: what the kernel models guess, what changes, the problem, and the candidate."""
    changes = [each[candidate] - each[anchor] for each in (guesses.within, guesses.rank, guesses.total)]
    extra = np.stack([*changes, guesses.within[candidate]], axis=1).astype(np.float32)
    own = slice(0, layout.own)
    edit = rows[candidate, own] - rows[anchor, own]
    return np.concatenate([extra, edit, rows[candidate, layout.numbers], rows[candidate, own]], axis=1)


def pair_width_rows(inputs: Rows, point: Floats, changes: Floats, layout: RowLayout) -> Rows:
    """What the width of a pair's forecast may depend on: the same for the reversed pair.

    Args:
        inputs: rows of the pairs.
        point: the blended guess.
        changes: what was blended.
        layout: of kernel rows.
    """
    edit = np.abs(inputs[:, GUESSES : GUESSES + layout.own])
    numbers = inputs[:, GUESSES + layout.own : GUESSES + layout.own + layout.numbers.stop - layout.numbers.start]
    pair, total, within, _ = np.abs(changes).T
    doubt = np.abs(changes[:, 0] - changes[:, 2])
    columns = (np.abs(point), pair, total, within, doubt, (edit > 0).sum(axis=1), edit.sum(axis=1))
    return np.concatenate([np.stack(columns, axis=1).astype(np.float32), edit, numbers], axis=1)


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
