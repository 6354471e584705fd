"""The trained model: forests, a line through problems and error shapes, kept in one file of plain arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.broad import USUAL, strangeness, trust, widened
from kbench.benchmark.surrogates.static.calibration import ErrorShape, Recalibration, probabilities
from kbench.benchmark.surrogates.static.forest import Forest, read_model, write_model
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool, RowLayout, Rows
from kbench.benchmark.surrogates.static.problem_row import NUMBERS
from kbench.schemas import PairKind, Query

VERSION = 5
MODEL_FILE = Path(__file__).with_name("model.npz")
KERNEL_FORESTS = ("within", "total", "within_boosted", "rank_boosted", "total_boosted")
FORESTS = (*KERNEL_FORESTS, "valid", "pair", "reference_width", "pair_width")
"""within: log2 speed relative to the problem's median, and the same in units of the problem's spread; rank: place
among the problem's kernels; total: log2 speedup over the reference; valid: log-odds; pair: log2 ratio of two kernels;
widths: log of the expected error."""
TRAIN_COMMAND = "python -m kbench.benchmark.surrogates.static.train"
Places = npt.NDArray[np.int64]

GUESSES = 4
"""Leading columns of a pair's row: what the kernel models guess."""
RATES = ("sm_count", "bandwidth", "peak", "plain_peak")
STATED = np.array([name not in RATES for name in NUMBERS])
"""Numbers of a problem by which it is found strange."""
RIDGE = 10.0
"""Chosen by cross-validation over training problems."""


@dataclasses.dataclass(frozen=True, slots=True)
class Forecasts:
    """What the model says of some queries, as columns."""

    probabilities: Floats
    log2_speedup: Floats
    p_valid: Floats


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StaticModel:
    """Everything `static` knows."""

    layout: RowLayout
    forests: dict[str, Forest]
    order: float
    """How many log2 one unit of `rank` is, where kernels of a problem are told apart."""
    pair_blend: Floats
    """Weights of `pair` and of the differences of `total`, `within` and `rank` for the ratio of two kernels."""
    level: Level
    reference_shape: ErrorShape
    pair_shape: ErrorShape
    recalibration: Recalibration
    facts: dict[str, Any]
    """What it was trained on."""
    usual: float = USUAL
    """How strange a problem may be whose answer is believed in full."""

    def forecast(self, queries: Sequence[Query]) -> Forecasts:
        """Answers to queries, each independent of the others."""
        pool = KernelPool(queries)
        rows = self.layout.rows(pool)
        guesses = self._guesses(rows)
        valid = 1.0 / (1.0 + np.exp(-self.forests["valid"].predict(rows)))
        is_reference = np.array([query.kind is PairKind.REFERENCE for query in queries], dtype=np.bool_)
        point, shares = np.zeros(len(queries)), np.zeros((len(queries), 8))
        for mask, answer in ((is_reference, self._reference), (~is_reference, self._pair)):
            if mask.any():
                point[mask], shares[mask] = answer(rows, guesses, pool.candidate[mask], pool.anchor[mask])
        kinds = [query.kind for query in queries]
        believed = trust(self.strangeness(rows), self.usual)[pool.candidate]
        shares = widened(self.recalibration.applied(shares, kinds), kinds, believed)
        return Forecasts(shares, point, valid[pool.candidate])

    def strangeness(self, rows: Rows) -> Floats:
        """How far each kernel's problem lies from those of training.

        The rates of GPUs are left out: forecasts carry over to partitions of a GPU that training did not see.
        """
        low, high = (each[: len(STATED)][STATED] for each in (self.level.low, self.level.high))
        return strangeness(stated_numbers(rows, self.layout), low, high)

    def _guesses(self, rows: Rows) -> Guesses:
        outputs = {name: self.forests[name].outputs(rows) for name in KERNEL_FORESTS}
        columns = {name: found if found.shape[1] > 1 else found[:, 0] for name, found in outputs.items()}
        return Guesses.of(**columns, level=self.level.predict(rows[:, self.layout.problem]))

    def _reference(self, rows: Rows, guesses: Guesses, candidate: Places, _: Places) -> tuple[Floats, Floats]:
        middle = guesses.middle
        inputs = reference_width_rows(rows[:, self.layout.numbers], guesses, middle)[candidate]
        width = np.exp(self.forests["reference_width"].predict(inputs))
        # The middle is near the truth over all problems; the level plus the order tells a problem's kernels apart
        # better, which is what a single figure is for.
        point = guesses.level + self.order * guesses.rank
        return point[candidate], probabilities(middle[candidate], width, self.reference_shape)

    def _pair(self, rows: Rows, guesses: Guesses, candidate: Places, anchor: Places) -> tuple[Floats, Floats]:
        ways = ((candidate, anchor), (anchor, candidate))
        there, back = (pair_inputs(rows, guesses, self.layout, *way) for way in ways)
        forest = self.forests["pair"]
        changes = guesses.differences(turned(forest.predict(there), forest.predict(back)), candidate, anchor)
        point = weighted(changes, self.pair_blend)
        width = np.exp(self.forests["pair_width"].predict(pair_width_rows(there, point, changes, self.layout)))
        return point, probabilities(point, width, self.pair_shape)

    def save(self, path: Path) -> None:
        """Write the file."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, forest in self.forests.items():
            arrays |= forest.arrays(name)
        arrays |= self.level.arrays() | self.recalibration.arrays()
        arrays |= {"pair_blend": self.pair_blend, "order": np.array(self.order), "usual": np.array(self.usual)}
        arrays |= {"reference_shape": self.reference_shape.quantiles, "pair_shape": self.pair_shape.quantiles}
        write_model(path, {"version": VERSION, "facts": self.facts}, arrays)

    @classmethod
    def load(cls, path: Path) -> StaticModel:
        """Read the file."""
        head, arrays = read_model(path, VERSION, TRAIN_COMMAND)
        return cls(
            layout=RowLayout(),
            forests={name: Forest.from_arrays(arrays, name) for name in FORESTS},
            order=float(arrays["order"]),
            pair_blend=arrays["pair_blend"],
            level=Level.from_arrays(arrays),
            reference_shape=ErrorShape(arrays["reference_shape"]),
            pair_shape=ErrorShape(arrays["pair_shape"]),
            recalibration=Recalibration.from_arrays(arrays),
            facts=head["facts"],
            usual=float(arrays.get("usual", USUAL)),
        )


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


def stated_numbers(rows: Rows, layout: RowLayout) -> Floats:
    """The numbers by which problems are found strange."""
    return rows[:, layout.numbers][:, STATED].astype(np.float64)


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
    """What the width of a pair's forecast may depend on: the same for the reversed pair."""
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
