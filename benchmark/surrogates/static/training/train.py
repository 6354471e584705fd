"""Train `static`: `python -m kbench.benchmark.surrogates.static.training.train [--dataset PATH] [--out FILE]`.

Everything is cross-fitted over problems: every training kernel is predicted by models that saw no kernel of its
problem. The pair model and the calibration learn from those predictions, so they know how far off the kernel models
are on a problem they have never seen, which is what the test split asks. The same predictions, scored, are the
cross-validation that training prints: what was chosen was chosen by it, never by test kernels.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities, recalibrated
from kbench.benchmark.surrogates.static.features.rows import RowLayout, Rows
from kbench.benchmark.surrogates.static.forest import Forest, constant
from kbench.benchmark.surrogates.static.guesses import (
    Guesses,
    Places,
    pair_inputs,
    pair_width_rows,
    reference_width_rows,
    turned,
)
from kbench.benchmark.surrogates.static.level import Level, weighted
from kbench.benchmark.surrogates.static.model import COMPILED_FILE, MODEL_FILE, StaticModel
from kbench.benchmark.surrogates.static.training.fitting import (
    averaged,
    boosted,
    boosted_classifier,
    cross_fitted,
    fitted,
)
from kbench.benchmark.surrogates.static.training.held_out import HeldOut
from kbench.benchmark.surrogates.static.training.material import Material
from kbench.benchmark.surrogates.static.training.mixes import MIXES_FILE, Mixes
from kbench.benchmark.tasks.build import Tables, training_kernels, training_pairs
from kbench.schemas import Pair, PairKind, Query

Ints = npt.NDArray[np.int64]
Tell = Callable[[str], None]

PAIR_PRIOR = np.array([0.5, 0.0, 0.25, 0.25])
"""Weights of the pair model and of differences of `total`, `within` and `rank` that the data may correct."""
RIDGE = 1000.0
"""How far the data may: kernels of one problem err alike, so thousands of them teach as little as their problems do."""
SMALLEST_ERROR = 0.03
"""Errors below a fiftieth of an octave are noise; a width must not chase them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of the forests; tests train small ones."""

    kernel_trees: int = 60
    boosted_trees: int = 120
    pair_trees: int = 100
    width_trees: int = 50
    valid_trees: int = 100
    leaves: int = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Trained:
    """A model, and what models of other folds said of each training question."""

    model: StaticModel
    held_out: HeldOut


@dataclasses.dataclass(frozen=True, slots=True)
class _Ends:
    """Pairs of kernels, and the same turned over below them: a ratio turned over changes its sign."""

    candidate: Places
    anchor: Places
    target: Floats
    kept: Ints
    """Which of the given pairs the first half are."""

    @property
    def pairs(self) -> int:
        """How many there are one way."""
        return len(self.kept)


def train(
    corpus: Tables,
    effort: Effort | None = None,
    seed: int = 0,
    *,
    compiled: bool = False,
    mixes: Mixes | None = None,
) -> StaticModel:
    """Train on the training splits of a corpus; equal corpora and seeds give equal models."""
    return trained(corpus, effort, seed, compiled=compiled, mixes=mixes).model


def trained(
    corpus: Tables,
    effort: Effort | None = None,
    seed: int = 0,
    *,
    compiled: bool = False,
    mixes: Mixes | None = None,
    tell: Tell = lambda text: None,
) -> Trained:
    """Train, and keep what was forecast of problems held out.

    Args:
        corpus: an opened corpus.
        effort: sizes of the forests.
        seed: of the trees.
        compiled: whether to learn from registers, shared memory and spills as well.
        mixes: instruction mixes to learn from besides, where it is compiled; some kernels may be missing.
        tell: told what is going on.
    """
    effort = effort or Effort()
    tell("reading training kernels")
    layout = RowLayout(compiled, mixed=compiled and bool(mixes))
    material = Material(list(training_kernels(corpus)), layout, mixes)
    problems = len(set(material.problems.tolist()))
    tell(f"kernel models on {material.valid.sum():,} kernels of {problems} problems")
    forests: dict[str, Forest] = {}
    guesses, level = _kernel_models(material, forests, effort, seed)
    forests["valid"] = _valid(material, effort, seed)
    tell("calibration over the reference")
    known, middle = material.known, guesses.middle
    inputs = reference_width_rows(material.rows[:, material.layout.numbers], guesses, middle)
    forests["reference_width"], reference_shape, over_reference = _calibrated(
        inputs[known], middle[known], material.total[known], material.fold[known], effort, seed
    )
    tell("pair model")
    pairs = list(training_pairs(corpus))
    ends = _ends(material, pairs)
    pair_blend, pair_shape, between = _pairs(material, ends, guesses, forests, effort, seed)
    order = _order(material, guesses)
    held_out = HeldOut.of(
        material, guesses.level + order * guesses.rank, over_reference, [pairs[i][1] for i in ends.kept], between
    )
    fold = np.concatenate([material.fold[known], material.fold[ends.candidate[: ends.pairs]]])
    recalibration, mended = recalibrated(held_out.probabilities, held_out.bin, held_out.kind, fold)
    facts = {"kernels": int(material.valid.sum()), "pairs": ends.pairs, "problems": problems, "seed": seed}
    facts |= {"mixes": material.mixes} if layout.mixed else {}
    model = StaticModel(
        layout=material.layout,
        forests=forests,
        order=order,
        pair_blend=pair_blend,
        level=level,
        reference_shape=reference_shape,
        pair_shape=pair_shape,
        recalibration=recalibration,
        facts={"dataset": corpus.fingerprint} | facts,
    )
    return Trained(model, dataclasses.replace(held_out, probabilities=mended))


def _kernel_models(material: Material, forests: dict[str, Forest], effort: Effort, seed: int) -> tuple[Guesses, Level]:
    """Models of single kernels, and what they say of kernels of problems they have not seen."""

    rows = material.rows[:, material.layout.compact]
    both = np.stack([material.within, material.within / material.spread], axis=1)
    kinds: tuple[tuple[str, Callable[[], Any], Floats], ...] = (
        ("within", lambda: averaged(effort.kernel_trees, seed), both),
        ("total", lambda: averaged(effort.kernel_trees, seed), material.total),
        ("within_boosted", lambda: boosted(effort.boosted_trees, effort.leaves, seed), material.within),
        ("rank_boosted", lambda: boosted(effort.boosted_trees, effort.leaves, seed), material.place),
        ("total_boosted", lambda: boosted(effort.boosted_trees, effort.leaves, seed), material.total),
    )
    said: dict[str, Floats] = {}
    for name, make, target in kinds:
        forests[name], said[name] = cross_fitted(make, rows, target, material.fold, material.weights)
    level, levels = _levels(material)
    return Guesses.of(**said, level=levels), level


def _valid(material: Material, effort: Effort, seed: int) -> Forest:
    if material.valid.all():
        return constant(6.0)
    model = boosted_classifier(effort.valid_trees, effort.leaves, seed)
    return fitted(model, material.rows, material.valid.astype(np.int64))


def _levels(material: Material) -> tuple[Level, Floats]:
    """The line through all problems, and what lines through other folds say of each kernel's problem."""
    names, first = np.unique(material.problems.astype(str), return_index=True)
    about = material.rows[:, material.layout.problem]
    features, fold = about[first], material.fold[first]
    levels = np.array([_median(material.total[material.problems == name]) for name in names])
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


def _weighed(design: Floats, target: Floats, weights: Floats, prior: Floats) -> Floats:
    """Least squares with a ridge towards weights that are known to be sensible."""
    gram = (design * weights[:, None]).T @ design + RIDGE * np.eye(design.shape[1])
    result: Floats = prior + np.linalg.solve(gram, (design * weights[:, None]).T @ (target - design @ prior))
    return result


def _order(material: Material, guesses: Guesses) -> float:
    """How many log2 a unit of the guessed rank is: learned from differences to the problem's mean."""
    known, problems = material.known, material.problems
    rank = guesses.rank.copy()
    for problem in set(problems.tolist()):
        rows = known & (problems == problem)
        rank[rows] -= rank[rows].mean() if rows.any() else 0.0
    design = material.weights[known] * rank[known]
    return float(design @ material.within[known] / max(float(design @ rank[known]), 1e-9))


def _calibrated(
    inputs: Rows, point: Floats, truth: Floats, fold: Ints, effort: Effort, seed: int
) -> tuple[Forest, ErrorShape, Floats]:
    """A forest for the size of errors, the shape of errors of that size, and the distributions of held-out rows."""
    errors = truth - point
    target = np.log(np.abs(errors) + SMALLEST_ERROR)
    forest, sizes = cross_fitted(lambda: boosted(effort.width_trees, 15, seed), inputs, target, fold)
    width = np.exp(sizes)
    shape = ErrorShape.of(errors / width)
    return forest, shape, probabilities(point, width, shape)


def _ends(material: Material, pairs: Sequence[tuple[Query, Pair]]) -> _Ends:
    places = dict(material.pool.places())
    found = []
    for index, (query, pair) in enumerate(pairs):
        one = places.get((query.candidate_source, query.problem_id, query.gpu))
        other = places.get((query.anchor_source, query.problem_id, query.gpu))
        if pair.kind is not PairKind.REFERENCE and one is not None and other is not None:
            found.append((one, other, index))
    candidate, anchor, kept = np.array(found, dtype=np.int64).reshape(-1, 3).T
    target = np.log2([pairs[i][1].speedup for i in kept])
    both = np.concatenate([candidate, anchor]), np.concatenate([anchor, candidate])
    return _Ends(*both, np.concatenate([target, -target]), kept)


def _pairs(
    material: Material, ends: _Ends, guesses: Guesses, forests: dict[str, Forest], effort: Effort, seed: int
) -> tuple[Floats, ErrorShape, Floats]:
    """The pair model, its width and shape, and the held-out distributions of the pairs."""
    count = ends.pairs
    if not count:
        forests |= {"pair": constant(0.0), "pair_width": constant(0.0)}
        return PAIR_PRIOR, ErrorShape.of(np.zeros(0)), np.zeros((0, 8))
    inputs = pair_inputs(material.rows, guesses, material.layout, ends.candidate, ends.anchor)
    fold = material.fold[ends.candidate]

    def make() -> Any:
        return boosted(effort.pair_trees, effort.leaves, seed, smallest_leaf=30)

    forests["pair"], each = cross_fitted(make, inputs, ends.target, fold)
    there = turned(each[:count], each[count:])
    changes = guesses.differences(np.concatenate([there, -there]), ends.candidate, ends.anchor)
    blend = _weighed(changes, ends.target, np.ones(2 * count), PAIR_PRIOR)
    point = weighted(changes, blend)
    widths = pair_width_rows(inputs, point, changes, material.layout)
    forests["pair_width"], shape, given = _calibrated(widths, point, ends.target, fold, effort, seed)
    return blend, shape, given[:count]


@click.command()
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Model file; the shipped one by default.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--compiled", is_flag=True, help="Train static-compiler: what compilers say as well.")
@click.option("--mixes", type=click.Path(dir_okay=False, path_type=Path), help="Instruction mixes; the shipped table.")
@click.option("--mix/--no-mix", default=True, help="Whether a compiled model learns from instruction mixes.")
@click.option("--check", is_flag=True, help="Only print the cross-validation; write no model.")
def main(
    dataset: str | None, out: Path | None, seed: int, compiled: bool, mixes: Path | None, mix: bool, check: bool
) -> None:
    """Train the static surrogate, print its cross-validation over problems, and write its model file."""
    from kbench.loaders.corpus.corpus import Corpus

    known = Mixes.load(mixes or MIXES_FILE) if compiled and mix else None
    found = trained(
        Corpus.open(dataset),
        seed=seed,
        compiled=compiled,
        mixes=known,
        tell=lambda text: click.echo(f"{text} …", err=True),
    )
    click.echo(json.dumps(found.held_out.figures(), indent=1))
    if not check:
        path = out or (COMPILED_FILE if compiled else MODEL_FILE)
        found.model.save(path)
        click.echo(f"wrote {os.fspath(path)}: {found.model.facts}", err=True)


if __name__ == "__main__":
    main()
