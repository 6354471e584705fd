"""`static`: trees as arrays, calibration, training, and files that cannot run anything."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.forecast import ece, log_score, rps
from kbench.benchmark.questions import Questions
from kbench.benchmark.surrogates.static import source as source_features
from kbench.benchmark.surrogates.static.calibration import ErrorShape, Recalibration, probabilities, recalibrated
from kbench.benchmark.surrogates.static.forest import FEW, Forest, from_sklearn
from kbench.benchmark.surrogates.static.material import Effort
from kbench.benchmark.surrogates.static.model import StaticModel, weighted
from kbench.benchmark.surrogates.static.source import tokens_of
from kbench.benchmark.surrogates.static.static import StaticSurrogate
from kbench.benchmark.surrogates.static.train import Trained, train
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import DataError, PairKind, UserError, bins

SMALL = Effort(kernel_trees=10, boosted_trees=20, pair_trees=25, width_trees=10, valid_trees=20, leaves=8)


@pytest.fixture(scope="module")
def found(corpus: Corpus) -> Trained:
    return train(corpus, SMALL)


@pytest.fixture(scope="module")
def model(found: Trained) -> StaticModel:
    return found.model


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


def test_training_is_repeatable(corpus: Corpus, model: StaticModel, questions: Questions, tmp_path: Path) -> None:
    model.save(tmp_path / "one.npz")
    train(corpus, SMALL).model.save(tmp_path / "two.npz")
    one, two = (StaticModel.load(tmp_path / name).forecast(questions.queries) for name in ("one.npz", "two.npz"))
    assert one.probabilities.tolist() == two.probabilities.tolist()
    # The file has leaves in half precision.
    direct = model.forecast(questions.queries)
    assert one.probabilities == pytest.approx(direct.probabilities, abs=1e-2)
    assert one.p_valid == pytest.approx(direct.p_valid, abs=1e-2)


def test_missing_model_file_says_how_to_train(questions: Questions, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"static\.train"):
        StaticSurrogate(model=str(tmp_path / "none.npz")).forecast(questions.queries[:1])
    np.savez(tmp_path / "pickled.npz", head=np.array([{"pickled": "object"}], dtype=object))
    with pytest.raises(DataError, match="cannot be read"):
        StaticModel.load(tmp_path / "pickled.npz")
    with pytest.raises(UserError, match="not both"):
        StaticSurrogate(model="a", retrain=True)


def test_a_saved_model_answers(corpus: Corpus, model: StaticModel, questions: Questions, tmp_path: Path) -> None:
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


def test_a_weighted_sum_of_a_row_does_not_depend_on_the_others() -> None:
    generator = np.random.default_rng(2)
    rows, weights = generator.normal(size=(1000, 9)), generator.normal(size=9)
    assert np.array_equal(weighted(rows, weights)[7:8], weighted(rows[7:8], weights))


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


def test_an_answer_depends_on_its_question_alone(model: StaticModel, questions: Questions) -> None:
    query = questions.queries[0]
    workloads = json.loads(query.workloads_json)
    for work in workloads:
        work["flops"], work["min_bytes"] = 8 * work["flops"], 8 * work["min_bytes"]
    other = dataclasses.replace(query, query_id="other", workloads_json=json.dumps(workloads))
    together, alone = model.forecast([query, other]), [model.forecast([one]) for one in (query, other)]
    assert together.probabilities == pytest.approx(np.concatenate([one.probabilities for one in alone]))
    assert not np.allclose(together.probabilities[0], together.probabilities[1]), "the sizes are looked at"
