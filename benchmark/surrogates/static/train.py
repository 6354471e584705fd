"""Train `static`: `python -m kbench.benchmark.surrogates.static.train [--dataset PATH] [--out FILE]`.

Everything is cross-fitted over problems: every training kernel is predicted by models that saw no kernel of its
problem. The pair model and the calibration learn from those predictions, so they know how far off the kernel models
are on an unseen problem, which is what the test split asks. The same predictions, scored, are the cross-validation
that training prints. All choices were made by it, never by test kernels.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from kbench.benchmark.metrics.arrays import Floats, Ints
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import TRAIN_SPLITS, training_kernels, training_pairs
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.broad import usual_strangeness
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities, recalibrated
from kbench.benchmark.surrogates.static.forest import Forest, constant
from kbench.benchmark.surrogates.static.kernel_rows import RowLayout, Rows
from kbench.benchmark.surrogates.static.material import (
    Effort,
    HeldOut,
    Material,
    averaged,
    boosted,
    boosted_classifier,
    cross_fitted,
    fitted,
)
from kbench.benchmark.surrogates.static.model import (
    MODEL_FILE,
    Guesses,
    Level,
    Places,
    StaticModel,
    pair_inputs,
    pair_width_rows,
    reference_width_rows,
    stated_numbers,
    turned,
    weighted,
)
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import PairKind, Query, Question

PRIOR_BLEND = np.array([0.5, 0.0, 0.25, 0.25])
"""Weights of the pair model and of differences of `total`, `within` and `rank` before the data correct them."""
RIDGE = 1000.0
"""How strongly those weights hold: kernels of one problem err alike, so thousands teach as little as their problems."""
SMALLEST_ERROR = 0.03
"""Errors below a thirtieth of an octave are noise that a width must not follow."""


@dataclasses.dataclass(frozen=True, slots=True)
class Trained:
    """A model, and what models of other folds said of each training question."""

    model: StaticModel
    held_out: HeldOut


def train(
    corpus: Tables,
    effort: Effort | None = None,
    seed: int = 0,
    *,
    splits: Sequence[str] = TRAIN_SPLITS,
    tell: Callable[[str], None] = lambda text: None,
) -> Trained:
    """Train on the training splits of a corpus; equal corpora and seeds give equal models."""
    effort = effort or Effort()
    tell("reading training kernels")
    layout = RowLayout()
    material = Material(list(training_kernels(corpus, splits)), layout)
    timed = material.known
    problems = len(set(material.problems.tolist()))
    tell(f"kernel models on {material.valid.sum():,} kernels of {problems} problems")
    kernels = kernel_models(material, effort, seed)
    guesses = kernels.guesses
    tell("calibration over the reference")
    middle = guesses.middle
    inputs = reference_width_rows(material.rows[:, layout.numbers], guesses, middle)
    reference = Widths.of(inputs[timed], middle[timed], material.total[timed], material.fold[timed], effort, seed)
    tell("pair model")
    pairs = list(training_pairs(corpus, splits))
    ends = Ends.of(material, pairs)
    pair = pair_model(material, ends, guesses, effort, seed)
    point = guesses.level + kernels.order * guesses.rank
    held_out = HeldOut.of(material, point, reference.held_out, [pairs[i] for i in ends.kept], pair.widths.held_out)
    fold = np.concatenate([material.fold[timed], material.fold[ends.candidate[: len(ends.kept)]]])
    recalibration, calibrated = recalibrated(held_out.probabilities, held_out.bin, held_out.kind, fold)
    facts = {"kernels": int(material.valid.sum()), "pairs": len(ends.kept), "problems": problems, "seed": seed}
    widths = {"reference_width": reference.forest, "pair_width": pair.widths.forest}
    model = StaticModel(
        layout=layout,
        forests=kernels.forests | widths | {"pair": pair.forest},
        order=kernels.order,
        pair_blend=pair.blend,
        level=kernels.level,
        reference_shape=reference.shape,
        pair_shape=pair.widths.shape,
        recalibration=recalibration,
        facts={"dataset": corpus.fingerprint} | facts,
        usual=usual_strangeness(stated_numbers(material.rows, layout), material.fold),
    )
    return Trained(model, dataclasses.replace(held_out, probabilities=calibrated))


@click.command()
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Model file; the shipped one by default.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--check", is_flag=True, help="Only print the cross-validation; write no model.")
def main(dataset: str | None, out: Path | None, seed: int, check: bool) -> None:
    """Train the static surrogate, print its cross-validation over problems, and write its model file."""
    trained = train(benchmark_of(Corpus.open(dataset)), seed=seed, tell=lambda text: click.echo(f"{text} …", err=True))
    click.echo(json.dumps(trained.held_out.figures(), indent=1))
    if not check:
        path = out or MODEL_FILE
        trained.model.save(path)
        click.echo(f"wrote {os.fspath(path)}: {trained.model.facts}", err=True)


if __name__ == "__main__":
    main()


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

    trees = functools.partial(averaged, effort.kernel_trees, seed)
    boosting = functools.partial(boosted, effort.boosted_trees, effort.leaves, seed)
    kinds: tuple[tuple[str, Callable[[], Any], Floats], ...] = (
        ("within", trees, both),
        ("total", trees, material.total),
        ("within_boosted", boosting, material.within),
        ("rank_boosted", boosting, material.place),
        ("total_boosted", boosting, material.total),
    )
    forests: dict[str, Forest] = {}
    held_out: dict[str, Floats] = {}
    for name, make, target in kinds:
        forests[name], held_out[name] = cross_fitted(make, rows, target, material.fold, material.weights)
    level, levels = _levels(material)
    guesses = Guesses.of(**held_out, level=levels)
    forests["valid"] = constant(6.0)
    if not material.valid.all():
        model = boosted_classifier(effort.valid_trees, effort.leaves, seed)
        forests["valid"] = fitted(model, material.rows, material.valid.astype(np.int64))
    return KernelModels(forests, level, _order(material, guesses), guesses)


def _levels(material: Material) -> tuple[Level, Floats]:
    """The line through all pools, and what lines through other folds say of each kernel's pool."""
    pools, first = np.unique(material.pools, return_index=True)
    about = material.rows[:, material.layout.problem]
    features, fold = about[first], material.fold[first]
    totals = [material.total[(material.pools == pool) & material.known] for pool in pools]
    levels = np.array([np.median(total) if len(total) else np.nan for total in totals])
    defined = ~np.isnan(levels)
    whole = Level.of(features[defined], levels[defined])
    held_out = np.zeros(len(material.rows))
    for each in np.unique(fold):
        others = defined & (fold != each)
        line = Level.of(features[others], levels[others]) if others.any() else whole
        held_out[material.fold == each] = line.predict(about[material.fold == each])
    return whole, held_out


def _order(material: Material, guesses: Guesses) -> float:
    """Learned from differences to the pool's mean."""
    timed = material.known
    rank = guesses.rank.copy()
    for pool in np.unique(material.pools):
        rows = timed & (material.pools == pool)
        rank[rows] -= rank[rows].mean() if rows.any() else 0.0
    design = material.weights[timed] * rank[timed]
    return float(design @ material.within[timed] / max(float(design @ rank[timed]), 1e-9))


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
        ends = []
        for index, (query, _) in enumerate(pairs):
            asked = query.problem_id, query.gpu, query.workloads_json
            one, other = (places.get((source, *asked)) for source in (query.candidate_source, query.anchor_source))
            if query.kind is not PairKind.REFERENCE and one is not None and other is not None:
                ends.append((one, other, index))
        candidate, anchor, kept = np.array(ends, dtype=np.int64).reshape(-1, 3).T
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

    trees = functools.partial(boosted, effort.pair_trees, effort.leaves, seed, smallest_leaf=30)
    forest, each = cross_fitted(trees, inputs, ends.target, fold)
    there = turned(each[:count], each[count:])
    changes = guesses.differences(np.concatenate([there, -there]), ends.candidate, ends.anchor)
    gram = changes.T @ changes + RIDGE * np.eye(changes.shape[1])
    blend = PRIOR_BLEND + np.linalg.solve(gram, changes.T @ (ends.target - changes @ PRIOR_BLEND))
    point = weighted(changes, blend)
    widths = Widths.of(pair_width_rows(inputs, point, changes, material.layout), point, ends.target, fold, effort, seed)
    return PairModel(forest, blend, dataclasses.replace(widths, held_out=widths.held_out[:count]))
