"""Models of single kernels: how fast within the pool, how fast over the reference, and whether valid."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.forest import Forest, constant
from kbench.benchmark.surrogates.static.guesses import Guesses
from kbench.benchmark.surrogates.static.level import Level
from kbench.benchmark.surrogates.static.training.fitting import (
    Effort,
    averaged,
    boosted,
    boosted_classifier,
    cross_fitted,
    fitted,
)
from kbench.benchmark.surrogates.static.training.material import Material


@dataclasses.dataclass(frozen=True, slots=True)
class KernelModels:
    """The models, and what they say of kernels of problems they have not seen."""

    forests: dict[str, Forest]
    level: Level
    order: float
    """How many log2 a unit of the guessed rank is."""
    guesses: Guesses


def kernel_models(material: Material, effort: Effort, seed: int) -> KernelModels:
    """Train them, cross-fitted over problems."""
    rows = material.rows[:, material.layout.compact]
    both = np.stack([material.within, material.within / material.spread], axis=1)

    def trees() -> Any:
        return averaged(effort.kernel_trees, seed)

    def boosting() -> Any:
        return boosted(effort.boosted_trees, effort.leaves, seed)

    kinds: tuple[tuple[str, Callable[[], Any], Floats], ...] = (
        ("within", trees, both),
        ("total", trees, material.total),
        ("within_boosted", boosting, material.within),
        ("rank_boosted", boosting, material.place),
        ("total_boosted", boosting, material.total),
    )
    forests: dict[str, Forest] = {}
    said: dict[str, Floats] = {}
    for name, make, target in kinds:
        forests[name], said[name] = cross_fitted(make, rows, target, material.fold, material.weights)
    level, levels = _levels(material)
    guesses = Guesses.of(**said, level=levels)
    forests["valid"] = _valid(material, effort, seed)
    return KernelModels(forests, level, _order(material, guesses), guesses)


def _valid(material: Material, effort: Effort, seed: int) -> Forest:
    if material.valid.all():
        return constant(6.0)
    model = boosted_classifier(effort.valid_trees, effort.leaves, seed)
    return fitted(model, material.rows, material.valid.astype(np.int64))


def _levels(material: Material) -> tuple[Level, Floats]:
    """The line through all pools, and what lines through other folds say of each kernel's pool."""
    pools, first = np.unique(material.pools, return_index=True)
    about = material.rows[:, material.layout.problem]
    features, fold = about[first], material.fold[first]
    levels = np.array([_median(material.total[material.pools == pool]) for pool in pools])
    known = ~np.isnan(levels)
    whole = Level.of(features[known], levels[known])
    held_out = np.zeros(len(material.rows))
    for each in np.unique(fold):
        others = known & (fold != each)
        line = Level.of(features[others], levels[others]) if others.any() else whole
        held_out[material.fold == each] = line.predict(about[material.fold == each])
    return whole, held_out


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _order(material: Material, guesses: Guesses) -> float:
    """Learned from differences to the pool's mean."""
    known = material.known
    rank = guesses.rank.copy()
    for pool in np.unique(material.pools):
        rows = known & (material.pools == pool)
        rank[rows] -= rank[rows].mean() if rows.any() else 0.0
    design = material.weights[known] * rank[known]
    return float(design @ material.within[known] / max(float(design @ rank[known]), 1e-9))
