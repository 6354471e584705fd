"""How `static` is trained: folds of problems, recalibration by kind, cross-validation, compiler figures."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from kbench.benchmark.metrics.forecast import ece, log_score
from kbench.benchmark.questions.build import training_kernels
from kbench.benchmark.surrogates.static.calibration import Recalibration, recalibrated
from kbench.benchmark.surrogates.static.kernel_rows import RowLayout
from kbench.benchmark.surrogates.static.material import Effort, Material, averaged, cross_fitted
from kbench.benchmark.surrogates.static.train import Trained, train
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import PairKind, bins

SMALL = Effort(kernel_trees=10, boosted_trees=20, pair_trees=25, width_trees=10, valid_trees=20, leaves=8)


@pytest.fixture(scope="module")
def found(corpus: Corpus) -> Trained:
    return train(corpus, SMALL)


def test_held_out_rows_are_predicted_by_models_that_never_saw_their_fold() -> None:
    fold = np.repeat([0, 1, 2], 20)
    rows = np.stack([fold, np.arange(60)], axis=1).astype(np.float32)
    target = fold * 100.0
    whole, held_out = cross_fitted(lambda: averaged(5, 0), rows, target, fold)
    assert held_out[fold == 2].max() <= 100.0
    assert held_out[fold == 0].min() >= 100.0
    assert whole.predict(rows).max() > 150.0


def test_rows_without_a_target_are_predicted_but_not_learned_from() -> None:
    rows = np.arange(40, dtype=np.float32)[:, None]
    target = np.where(np.arange(40) % 2, np.nan, 1.0)
    _, held_out = cross_fitted(lambda: averaged(5, 0), rows, target, np.arange(40) % 4 // 2)
    assert held_out == pytest.approx(np.ones(40))


def test_cross_validation_says_every_headline_with_its_interval(found: Trained) -> None:
    figures = found.held_out.figures()
    assert set(figures) >= {"all", "reference", "pools", "pools at random"}
    for name in ("skill", "ece", "aurc"):
        value, low, high = figures["all"][name]
        assert low <= value <= high or name == "ece"
    assert figures["pools"]["spearman"][0] > figures["pools at random"]["spearman"][0] == 0.0
    rows = found.held_out.probabilities
    assert rows.sum(axis=1) == pytest.approx(np.ones(len(rows)))
    assert len(rows) == len(found.held_out.bin) == len(found.held_out.kind)


def test_recalibration_mends_what_is_too_sure_and_leaves_the_reference_alone() -> None:
    generator = np.random.default_rng(1)
    honest = generator.dirichlet(np.full(8, 0.5), 3000)
    truth = np.array([generator.choice(8, p=row) + 1 for row in honest])
    sure = honest**2 + 1e-4
    sure /= sure.sum(axis=1, keepdims=True)
    siblings = [PairKind.SIBLING] * len(truth)
    learned, mended = recalibrated(sure, truth, siblings, np.arange(len(truth)) % 5)
    assert ece(mended, truth) < ece(sure, truth) / 2
    assert log_score(mended, truth) < log_score(sure, truth)
    again = Recalibration.from_arrays(learned.arrays())
    assert again.applied(sure, siblings).tolist() == learned.applied(sure, siblings).tolist()
    over_reference = [PairKind.REFERENCE] * len(truth)
    assert Recalibration.of(sure, truth, over_reference).applied(sure, over_reference) == pytest.approx(sure)


def test_one_bin_that_never_happens_is_not_made_impossible() -> None:
    given = np.full((200, 8), 1 / 8)
    learned = Recalibration.of(given, np.full(200, 4), [PairKind.SIBLING] * 200)
    assert (learned.applied(given, [PairKind.SIBLING] * 200) > 1e-4).all()


def test_layout_names_every_column_it_makes(corpus: Corpus) -> None:
    material = Material(list(training_kernels(corpus)), RowLayout())
    names = material.layout.names
    assert material.rows.shape[1] == len(names) == len(set(names))
    assert names[material.layout.problem][0] == "problem:flops"
    assert names[material.layout.compact][-1].startswith("problem:")


def test_forecasts_held_out_are_of_the_questions_asked(found: Trained) -> None:
    kept = dataclasses.replace(found.held_out, probabilities=np.full_like(found.held_out.probabilities, 1 / 8))
    assert kept.figures()["all"]["accuracy"][0] == pytest.approx(1 / 8)
    assert set(np.unique(found.held_out.bin)) <= set(bins.NUMBERS)
