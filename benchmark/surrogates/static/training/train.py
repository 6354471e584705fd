"""Train `static`: `python -m kbench.benchmark.surrogates.static.training.train [--dataset PATH] [--out FILE]`.

Everything is cross-fitted over problems: every training kernel is predicted by models that saw no kernel of its
problem. The pair model and the calibration learn from those predictions, so they know how far off the kernel models
are on an unseen problem, which is what the test split asks. The same predictions, scored, are the cross-validation
that training prints. All choices were made by it, never by test kernels.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import numpy as np

from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import TRAIN_SPLITS, training_kernels, training_pairs
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.surrogates.static.calibration import recalibrated
from kbench.benchmark.surrogates.static.features.rows import RowLayout
from kbench.benchmark.surrogates.static.guesses import reference_width_rows
from kbench.benchmark.surrogates.static.model import MODEL_FILE, StaticModel
from kbench.benchmark.surrogates.static.training.fitting import Effort
from kbench.benchmark.surrogates.static.training.held_out import HeldOut
from kbench.benchmark.surrogates.static.training.kernels import kernel_models
from kbench.benchmark.surrogates.static.training.material import Material
from kbench.benchmark.surrogates.static.training.pairs import Ends, Widths, pair_model
from kbench.loaders.corpus.corpus import Corpus


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
    """Train on the training splits of a corpus; equal corpora and seeds give equal models.

    Args:
        corpus: an opened corpus.
        effort: sizes of the forests.
        seed: of the trees.
        splits: the training splits to learn from.
        tell: told what is going on.
    """
    effort = effort or Effort()
    tell("reading training kernels")
    layout = RowLayout()
    material = Material(list(training_kernels(corpus, splits)), layout)
    known = material.known
    problems = len(set(material.problems.tolist()))
    tell(f"kernel models on {material.valid.sum():,} kernels of {problems} problems")
    kernels = kernel_models(material, effort, seed)
    guesses = kernels.guesses
    tell("calibration over the reference")
    middle = guesses.middle
    inputs = reference_width_rows(material.rows[:, layout.numbers], guesses, middle)
    reference = Widths.of(inputs[known], middle[known], material.total[known], material.fold[known], effort, seed)
    tell("pair model")
    pairs = list(training_pairs(corpus, splits))
    ends = Ends.of(material, pairs)
    pair = pair_model(material, ends, guesses, effort, seed)
    point = guesses.level + kernels.order * guesses.rank
    held_out = HeldOut.of(material, point, reference.held_out, [pairs[i] for i in ends.kept], pair.widths.held_out)
    fold = np.concatenate([material.fold[known], material.fold[ends.candidate[: len(ends.kept)]]])
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
    )
    return Trained(model, dataclasses.replace(held_out, probabilities=calibrated))


@click.command()
@click.option("--dataset", help="Corpus folder; the shipped dataset by default.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Model file; the shipped one by default.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--check", is_flag=True, help="Only print the cross-validation; write no model.")
def main(dataset: str | None, out: Path | None, seed: int, check: bool) -> None:
    """Train the static surrogate, print its cross-validation over problems, and write its model file."""
    found = train(
        benchmark_of(Corpus.open(dataset)),
        seed=seed,
        tell=lambda text: click.echo(f"{text} …", err=True),
    )
    click.echo(json.dumps(found.held_out.figures(), indent=1))
    if not check:
        path = out or MODEL_FILE
        found.model.save(path)
        click.echo(f"wrote {os.fspath(path)}: {found.model.facts}", err=True)


if __name__ == "__main__":
    main()
