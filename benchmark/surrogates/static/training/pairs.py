"""The model of a pair of kernels, and the width and shape of errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities
from kbench.benchmark.surrogates.static.features.rows import Rows
from kbench.benchmark.surrogates.static.forest import Forest, constant
from kbench.benchmark.surrogates.static.guesses import Guesses, Places, pair_inputs, pair_width_rows, turned
from kbench.benchmark.surrogates.static.level import weighted
from kbench.benchmark.surrogates.static.training.fitting import Effort, boosted, cross_fitted
from kbench.benchmark.surrogates.static.training.material import Material
from kbench.schemas import PairKind, Query, Question

PRIOR_BLEND = np.array([0.5, 0.0, 0.25, 0.25])
"""Weights of the pair model and of differences of `total`, `within` and `rank` before the data correct them."""
RIDGE = 1000.0
"""How strongly those weights hold: kernels of one problem err alike, so thousands teach as little as their problems."""
SMALLEST_ERROR = 0.03
"""Errors below a thirtieth of an octave are noise that a width must not follow."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ends:
    """Pairs of kernels, followed by the same pairs reversed: reversing a ratio changes the sign of its logarithm."""

    candidate: Places
    anchor: Places
    target: Floats
    kept: Ints
    """Which of the given pairs the first half are."""

    @classmethod
    def of(cls, material: Material, pairs: Sequence[tuple[Query, Question]]) -> Ends:
        """Look both kernels of each pair up."""
        places = dict(material.pool.places())
        found = []
        for index, (query, _) in enumerate(pairs):
            one = places.get((query.candidate_source, query.problem_id, query.gpu))
            other = places.get((query.anchor_source, query.problem_id, query.gpu))
            if query.kind is not PairKind.REFERENCE and one is not None and other is not None:
                found.append((one, other, index))
        candidate, anchor, kept = np.array(found, dtype=np.int64).reshape(-1, 3).T
        target = np.log2([pairs[i][1].speedup for i in kept])
        both = np.concatenate([candidate, anchor]), np.concatenate([anchor, candidate])
        return cls(*both, np.concatenate([target, -target]), kept)


@dataclasses.dataclass(frozen=True, slots=True)
class Widths:
    """A forest for the size of errors, the shape of errors of that size, and distributions of held-out rows."""

    forest: Forest
    shape: ErrorShape
    held_out: Floats

    @classmethod
    def of(cls, inputs: Rows, point: Floats, truth: Floats, fold: Ints, effort: Effort, seed: int) -> Widths:
        """Learn from the errors of points."""
        errors = truth - point
        target = np.log(np.abs(errors) + SMALLEST_ERROR)
        forest, sizes = cross_fitted(lambda: boosted(effort.width_trees, 15, seed), inputs, target, fold)
        width = np.exp(sizes)
        shape = ErrorShape.of(errors / width)
        return cls(forest, shape, probabilities(point, width, shape))


@dataclasses.dataclass(frozen=True, slots=True)
class PairModel:
    """What forecasts the ratio of two kernels."""

    forest: Forest
    blend: Floats
    widths: Widths


def pair_model(material: Material, ends: Ends, guesses: Guesses, effort: Effort, seed: int) -> PairModel:
    """Train it, cross-fitted over problems."""
    count = len(ends.kept)
    if not count:
        nothing = Widths(constant(0.0), ErrorShape.of(np.zeros(0)), np.zeros((0, 8)))
        return PairModel(constant(0.0), PRIOR_BLEND, nothing)
    inputs = pair_inputs(material.rows, guesses, material.layout, ends.candidate, ends.anchor)
    fold = material.fold[ends.candidate]

    def make() -> Any:
        return boosted(effort.pair_trees, effort.leaves, seed, smallest_leaf=30)

    forest, each = cross_fitted(make, inputs, ends.target, fold)
    there = turned(each[:count], each[count:])
    changes = guesses.differences(np.concatenate([there, -there]), ends.candidate, ends.anchor)
    gram = changes.T @ changes + RIDGE * np.eye(changes.shape[1])
    blend = PRIOR_BLEND + np.linalg.solve(gram, changes.T @ (ends.target - changes @ PRIOR_BLEND))
    point = weighted(changes, blend)
    widths = Widths.of(pair_width_rows(inputs, point, changes, material.layout), point, ends.target, fold, effort, seed)
    return PairModel(forest, blend, dataclasses.replace(widths, held_out=widths.held_out[:count]))
