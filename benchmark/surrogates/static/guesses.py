"""What the kernel models say of each kernel, and the rows made from it for pairs and for the size of errors."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.features.rows import RowLayout, Rows

Places = npt.NDArray[np.int64]

GUESSES = 4
"""Leading columns of a pair's row: what the kernel models guess."""


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
