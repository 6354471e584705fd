"""Train `static`: `python -m kbench.benchmark.surrogates.static.train [--dataset PATH] [--out FILE]`.

Kernel models are cross-fitted over problems: every training kernel is predicted by models that saw no kernel of its
problem. The pair model and the calibration learn from those predictions, so they know how far off the kernel models
are on a problem they have never seen, which is what the test split asks.
"""

from __future__ import annotations

import dataclasses
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates.static.calibration import ErrorShape
from kbench.benchmark.surrogates.static.forest import Forest, from_sklearn
from kbench.benchmark.surrogates.static.level import Level, weighted
from kbench.benchmark.surrogates.static.model import (
    Guesses,
    StaticModel,
    pair_inputs,
    pair_width_rows,
    problem_columns,
    reference_width_rows,
)
from kbench.benchmark.surrogates.static.rows import KernelRows, Pool, Rows
from kbench.benchmark.surrogates.static.source_features import learn_vocabulary
from kbench.benchmark.tasks.build import Tables, training_kernels, training_pairs
from kbench.schemas import PairKind, Query, Status, UserError

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FOLDS = 4
WORDS = 200
BINS = 64
"""Cuts a feature is looked at with: enough for tile sizes and counts, and four times cheaper than the default."""
PAIR_PRIOR = np.array([0.5, 0.0, 0.5, 0.0])
"""Weights of the pair model and of differences of `total`, `within` and `rank` that the data may correct."""
SMALLEST_SPREAD = 0.1
SMALLEST_ERROR = 0.03
"""Errors below a fiftieth of an octave are noise; a width must not chase them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """Sizes of the forests; tests train small ones."""

    kernel_trees: int = 160
    pair_trees: int = 160
    width_trees: int = 50
    valid_trees: int = 100
    leaves: int = 24


class Material:
    """Training kernels as rows, with their targets and their problems' folds."""

    def __init__(self, kernels: Sequence[tuple[Query, dict[str, Any]]], words: int) -> None:
        if not any(row["status"] == Status.OK for _, row in kernels):
            raise UserError("the training splits hold no kernel with status ok; static has nothing to learn from")
        queries = [query for query, _ in kernels]
        problems = [query.problem_id for query in queries]
        self.vocabulary = tuple(learn_vocabulary([q.candidate_source for q in queries], problems, words))
        self.pool = Pool(queries)
        self.rows = KernelRows(self.vocabulary).rows(self.pool.sources, self.pool.queries)
        self.problems = np.array([query.problem_id for query in self.pool.queries], dtype=object)
        self.fold = np.array([zlib.crc32(str(p).encode()) % FOLDS for p in self.problems], dtype=np.int64)
        self.valid = np.zeros(len(self.rows), dtype=np.bool_)
        self.total = np.full(len(self.rows), np.nan)
        for at, (_, row) in zip(self.pool.candidate, kernels, strict=True):
            self.valid[at] = row["status"] == Status.OK
            if row["speedup"] is not None:
                self.total[at] = np.log2(row["speedup"])
        self.within = _centred(self.total, self.problems)
        self.spread = _spreads(self.within, self.problems)
        self.weights = _balanced(self.problems, self.valid)


def _centred(values: Floats, groups: npt.NDArray[np.object_]) -> Floats:
    result = values.copy()
    for group in set(groups.tolist()):
        rows = groups == group
        result[rows] -= np.nanmedian(values[rows]) if np.any(~np.isnan(values[rows])) else 0.0
    return result


def _spreads(values: Floats, groups: npt.NDArray[np.object_]) -> Floats:
    """Standard deviation in each kernel's problem: in its units problems are alike, whatever there is to gain."""
    result = np.ones(len(values))
    for group in set(groups.tolist()):
        rows = groups == group
        known = values[rows][~np.isnan(values[rows])]
        result[rows] = max(float(known.std()) if len(known) else 1.0, SMALLEST_SPREAD)
    return result


def _balanced(groups: npt.NDArray[np.object_], counted: Mask) -> Floats:
    """Every problem weighs the same up to a square root, so that large pools do not drown small ones."""
    names, index = np.unique(groups.astype(str), return_inverse=True)
    count = np.bincount(index, weights=counted, minlength=len(names))
    weights = 1.0 / np.sqrt(np.maximum(count[index], 1.0))
    result: Floats = weights / weights.mean()
    return result


def _regressor(trees: int, leaves: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        learning_rate=0.08, max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=15, max_bins=BINS,
        l2_regularization=2.0, max_features=0.3, early_stopping=False, random_state=seed,
    )  # fmt: skip


def _classifier(trees: int, leaves: int, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        learning_rate=0.08, max_iter=trees, max_leaf_nodes=leaves, min_samples_leaf=15, max_bins=BINS,
        l2_regularization=2.0, max_features=0.3, early_stopping=False, random_state=seed,
    )  # fmt: skip


def _cross_fitted(
    make: Callable[[], Any], rows: Rows, target: Floats, weights: Floats, fold: Ints
) -> tuple[Forest, Floats]:
    """A forest of all rows, and predictions by forests that saw no row of the same fold."""
    known = ~np.isnan(target)
    held_out = np.zeros(len(rows))
    folds = [f for f in range(FOLDS) if (fold == f).any()]
    for f in folds if len(folds) > 1 else ():
        train = known & (fold != f)
        if train.any():
            held_out[fold == f] = fitted(make(), rows[train], target[train], weights[train]).predict(rows[fold == f])
    whole = fitted(make(), rows[known], target[known], weights[known])
    return whole, held_out if len(folds) > 1 else whole.predict(rows)


def fitted(model: Any, rows: Rows, target: Any, weights: Floats | None = None) -> Forest:
    """Fit on one thread, as arrays: sums over threads would differ from run to run, and waiting threads burn cores."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        # A column that never changes costs as much as one that does.
        kept = np.flatnonzero(rows.min(axis=0) < rows.max(axis=0))
        return from_sklearn(model.fit(rows[:, kept], target, sample_weight=weights), kept)


def train(
    corpus: Tables, effort: Effort | None = None, seed: int = 0, tell: Callable[[str], None] = lambda t: None
) -> StaticModel:
    """Train on the training splits of a corpus; equal corpora and seeds give equal models."""
    effort = effort or Effort()
    tell("reading training kernels")
    material = Material(list(training_kernels(corpus)), WORDS)
    tell(f"kernel models on {material.valid.sum():,} kernels of {len(set(material.problems.tolist()))} problems")

    def regressor() -> Any:
        return _regressor(effort.kernel_trees, effort.leaves, seed)

    forests: dict[str, Forest] = {}
    held_out: dict[str, Floats] = {}
    targets = {"within": material.within, "total": material.total, "rank": material.within / material.spread}
    for name, target in targets.items():
        forests[name], held_out[name] = _cross_fitted(regressor, material.rows, target, material.weights, material.fold)
    level, held_out["level"] = _levels(material)
    guesses = Guesses(**held_out)
    forests["valid"] = _valid(material, effort, seed)
    tell("calibration over the reference")
    blend, reference_shape, forests["reference_width"] = _reference(material, guesses, effort, seed)
    tell("pair model")
    pairs = [(q, p) for q, p in training_pairs(corpus) if p.kind is not PairKind.REFERENCE]
    pair_blend, forests["pair"], forests["pair_width"], pair_shape = _pairs(material, pairs, guesses, effort, seed)
    return StaticModel(
        vocabulary=material.vocabulary,
        forests=forests,
        blend=blend,
        pair_blend=pair_blend,
        level=level,
        reference_shape=reference_shape,
        pair_shape=pair_shape,
        facts={
            "dataset": corpus.fingerprint,
            "kernels": int(material.valid.sum()),
            "pairs": len(pairs),
            "problems": len(set(material.problems.tolist())),
            "seed": seed,
        },
    )


def _valid(material: Material, effort: Effort, seed: int) -> Forest:
    if material.valid.all():
        return _constant(6.0)
    model = _classifier(effort.valid_trees, effort.leaves, seed)
    return fitted(model, material.rows, material.valid.astype(np.int64))


def _constant(value: float) -> Forest:
    one = np.zeros((1, 1), dtype=np.int32)
    none = np.zeros((1, 1), dtype=np.float32)
    return Forest(value, one, none, one, one, none, np.zeros(1, dtype=np.int32))


def _levels(material: Material) -> tuple[Level, Floats]:
    """The line through all problems, and what lines through other folds say of each kernel's problem."""
    names, first = np.unique(material.problems.astype(str), return_index=True)
    features, fold = problem_columns(material.rows[first]), material.fold[first]
    levels = np.array([_median(material.total[material.problems == name]) for name in names])
    known = ~np.isnan(levels)
    whole = Level.of(features[known], levels[known])
    held_out = np.zeros(len(material.rows))
    for f in range(FOLDS):
        others = known & (fold != f)
        line = Level.of(features[others], levels[others]) if others.any() else whole
        held_out[material.fold == f] = line.predict(problem_columns(material.rows[material.fold == f]))
    return whole, held_out


def _median(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _weighed(design: Floats, target: Floats, weights: Floats, prior: Floats, ridge: float = 10.0) -> Floats:
    """Least squares with a little ridge towards weights that are known to be sensible."""
    gram = (design * weights[:, None]).T @ design + ridge * np.eye(design.shape[1])
    result: Floats = prior + np.linalg.solve(gram, (design * weights[:, None]).T @ (target - design @ prior))
    return result


def _reference(material: Material, guesses: Guesses, effort: Effort, seed: int) -> tuple[Floats, ErrorShape, Forest]:
    known = ~np.isnan(material.total)
    prior = np.array([0.0, 0.5, 0.0, 0.0, 0.5])
    blend = _weighed(guesses.columns()[known], material.total[known], material.weights[known], prior)
    point = guesses.reference(blend)
    inputs = reference_width_rows(material.rows, guesses, point)
    width, shape = _widths(inputs[known], (material.total - point)[known], material.fold[known], effort, seed)
    return blend, shape, width


def _widths(inputs: Rows, errors: Floats, fold: Ints, effort: Effort, seed: int) -> tuple[Forest, ErrorShape]:
    """A forest for the size of errors, and the shape of errors divided by sizes predicted for problems held out."""
    target = np.log(np.abs(errors) + SMALLEST_ERROR)

    def make() -> Any:
        return _regressor(effort.width_trees, 15, seed)

    forest, held_out = _cross_fitted(make, inputs, target, np.ones(len(inputs)), fold)
    return forest, ErrorShape.of(errors / np.exp(held_out))


def _pairs(
    material: Material, pairs: Sequence[tuple[Query, Any]], guesses: Guesses, effort: Effort, seed: int
) -> tuple[Floats, Forest, Forest, ErrorShape]:
    """The pair model on pairs and on the same pairs the other way round: a ratio turned over changes its sign."""
    places = dict(material.pool.places())
    ends = [(places.get(_key(q.candidate_source, q)), places.get(_key(q.anchor_source, q))) for q, _ in pairs]
    kept = [i for i, (candidate, anchor) in enumerate(ends) if candidate is not None and anchor is not None]
    if not kept:
        return PAIR_PRIOR, _constant(0.0), _constant(0.0), ErrorShape.of(np.zeros(0))
    candidate = np.array([ends[i][0] for i in kept], dtype=np.int64)
    anchor = np.array([ends[i][1] for i in kept], dtype=np.int64)
    target = np.log2([pairs[i][1].speedup for i in kept])
    both = (np.concatenate([candidate, anchor]), np.concatenate([anchor, candidate]))
    inputs = pair_inputs(material.rows, guesses, *both)
    targets, fold = np.concatenate([target, -target]), material.fold[both[0]]

    def make() -> Any:
        return _regressor(effort.pair_trees, effort.leaves, seed)

    forest, held_out = _cross_fitted(make, inputs, targets, np.ones(len(targets)), fold)
    design = guesses.differences(held_out, *both)
    blend = _weighed(design, targets, np.ones(len(targets)), PAIR_PRIOR)
    point = weighted(design, blend)
    width, shape = _widths(pair_width_rows(inputs, point), targets - point, fold, effort, seed)
    return blend, forest, width, shape


def _key(source: str, query: Query) -> tuple[str, str, str]:
    return source, query.problem_id, query.gpu


@click.command()
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Model file; the shipped one by default.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(dataset: str | None, out: Path | None, seed: int) -> None:
    """Train the static surrogate and write its model file."""
    from kbench.benchmark.surrogates.static import MODEL_FILE
    from kbench.loaders.corpus import Corpus

    path = out or MODEL_FILE
    model = train(Corpus.open(dataset), seed=seed, tell=lambda text: click.echo(f"{text} …", err=True))
    model.save(path)
    click.echo(f"wrote {os.fspath(path)}: {model.facts}")


if __name__ == "__main__":
    main()
