"""`static`: trees as arrays, calibration, training, and files that cannot run anything."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.forecast import rps
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.static import source as source_features
from kbench.benchmark.surrogates.static.calibration import ErrorShape, probabilities
from kbench.benchmark.surrogates.static.forest import FEW, Forest, from_sklearn
from kbench.benchmark.surrogates.static.material import Effort
from kbench.benchmark.surrogates.static.model import StaticModel
from kbench.benchmark.surrogates.static.source import tokens_of
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.benchmark.surrogates.static.train import train
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, UserError, bins

SMALL = Effort(kernel_trees=10, boosted_trees=20, pair_trees=25, width_trees=10, valid_trees=20, leaves=8)


@pytest.fixture(scope="module")
def model(corpus: Corpus) -> StaticModel:
    return train(corpus, SMALL).model


def test_trees_as_arrays_predict_what_sklearn_predicts() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(400, 6)).astype(np.float32)
    target = rows[:, 0] * rows[:, 1] + generator.normal(size=400) * 0.1
    fitted = HistGradientBoostingRegressor(max_iter=15, max_leaf_nodes=9).fit(rows, target)
    forest = from_sklearn(fitted)
    assert forest.predict(rows) == pytest.approx(fitted.predict(rows), abs=1e-5)
    again = Forest.from_arrays(forest.arrays("f"), "f")
    assert again.predict(rows) == pytest.approx(forest.predict(rows), abs=1e-3)
    labels = (target > 0).astype(int)
    classifier = HistGradientBoostingClassifier(max_iter=15).fit(rows, labels)
    assert from_sklearn(classifier).predict(rows) == pytest.approx(classifier.decision_function(rows), abs=1e-5)


def test_averaged_trees_with_two_outputs_predict_what_sklearn_predicts() -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(300, 5)).astype(np.float32)
    target = np.stack([rows[:, 0] * rows[:, 1], rows[:, 2]], axis=1)
    fitted = ExtraTreesRegressor(12, min_samples_leaf=3, random_state=0).fit(rows, target)
    forest = from_sklearn(fitted)
    assert forest.outputs(rows) == pytest.approx(fitted.predict(rows), abs=1e-5)
    assert Forest.from_arrays(forest.arrays("f"), "f").outputs(rows) == pytest.approx(forest.outputs(rows), abs=1e-3)


@pytest.mark.parametrize("count", [1, 7, FEW, FEW + 1, 300])
def test_a_row_s_outputs_are_the_same_to_the_bit_however_many_are_asked_for_with_it(count: int) -> None:
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(300, 5)).astype(np.float32)
    target = np.stack([rows[:, 0] * rows[:, 1], rows[:, 2]], axis=1)
    for fitted in (
        ExtraTreesRegressor(40, min_samples_leaf=2, random_state=0).fit(rows, target),
        HistGradientBoostingRegressor(max_iter=60, max_leaf_nodes=9).fit(rows, target[:, 0]),
    ):
        forest = from_sklearn(fitted)
        assert np.array_equal(forest.outputs(rows[:count]), forest.outputs(rows)[:count])


def test_calibration_gives_back_the_errors_it_saw() -> None:
    generator = np.random.default_rng(1)
    shape = ErrorShape.of(generator.normal(size=4000))
    points = generator.normal(size=3000)
    truth = bins.bins_of(2.0 ** (points + 0.5 * generator.normal(size=3000)))
    given = probabilities(points, np.full(3000, 0.5), shape)
    assert given.sum(axis=1) == pytest.approx(np.ones(3000))
    for number in bins.NUMBERS:
        assert given[:, number - 1].mean() == pytest.approx((truth == number).mean(), abs=0.02)
    wide = probabilities(points, np.full(3000, 2.0), shape)
    assert rps(given, truth) < rps(wide, truth)


def test_trained_model_beats_the_prior_on_unseen_problems(model: StaticModel, questions: Questions) -> None:
    found = model.forecast(questions.queries)
    pairs = questions.pairs
    skill = 1 - rps(found.probabilities[pairs.query], pairs.bin) / rps(
        np.tile(questions.prior, (len(pairs), 1)), pairs.bin
    )
    assert skill > 0.5


def test_training_is_deterministic_and_the_file_keeps_everything(
    corpus: Corpus, model: StaticModel, questions: Questions, tmp_path: Path
) -> None:
    model.save(tmp_path / "one.npz")
    train(corpus, SMALL).model.save(tmp_path / "two.npz")
    loaded = [StaticModel.load(tmp_path / name).forecast(questions.queries) for name in ("one.npz", "two.npz")]
    direct = model.forecast(questions.queries)
    for found in loaded:
        assert found.probabilities == pytest.approx(direct.probabilities, abs=1e-3)
        assert found.p_valid == pytest.approx(direct.p_valid, abs=1e-3)


def test_model_file_is_read_without_running_anything(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez(path, head=np.array([{"pickled": "object"}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        StaticModel.load(path)


def test_missing_model_file_says_how_to_train(questions: Questions, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"static\.train"):
        StaticSurrogate(model=str(tmp_path / "none.npz")).forecast(questions.queries[:1])
    with pytest.raises(UserError, match="not both"):
        StaticSurrogate(model="a", retrain=True)


def test_saved_model_answers_through_the_surrogate(
    corpus: Corpus, model: StaticModel, questions: Questions, tmp_path: Path
) -> None:
    model.save(tmp_path / "model.npz")
    options = Options(arguments={"model": str(tmp_path / "model.npz")}, resamples=50)
    done = evaluate_on("static", corpus, options, questions=questions)
    assert not done.run.failures
    assert done.scored.figures["rank"]["regret_at_10"].value < 0.5
    assert all(f.speedup is not None and f.p_valid is not None for f in done.run.forecasts)


def test_numbers_in_the_source_become_features() -> None:
    source = "kernel[(8 * 132,)](x, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32, num_warps=8, num_stages=3)\n"
    found = source_features.numbers(source, Counter(tokens_of(source)))
    assert (found["m"], found["n"], found["k"]) == (7.0, 6.0, 5.0)
    assert (found["warps"], found["stages"], found["threads"]) == (3.0, 3.0, 8.0)
    assert found["per_sm"] == 3.0
    cuda = 'CudaModule(r"""__global__ void __launch_bounds__(256, 2) f() {\n#pragma unroll 4\n}""")\nlaunch(block=256)'
    found = source_features.numbers(cuda, Counter(tokens_of(cuda)))
    assert (found["threads"], found["bounds_blocks"], found["unroll"], found["is_cuda"]) == (8.0, 2.0, 2.0, 1.0)
