"""Kernels of others: skill over our prior, over their own frequencies, and whether there is any order."""

import dataclasses

import numpy as np
import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.external import PriorWithoutShapes, external_figures
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.baselines import UniformSurrogate
from kbench.benchmark.surrogates.forecasts import ForecastTable, from_forecasts
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import Forecast, PairKind, bins

from .conftest import invented_tables, written

SETTINGS = BootstrapSettings(resamples=200)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """The tests' corpus as if it had been imported."""
    tables = invented_tables()
    tables["kernels"] = [dataclasses.replace(one, origin="someone/kernels@1") for one in tables["kernels"]]
    tables["questions"] = [one for one in tables["questions"] if one.workload is None]
    return benchmark_of(Corpus.open(written(tmp_path_factory.mktemp("imported") / "corpus", tables)))


@pytest.fixture(scope="module")
def questions(corpus: Tables) -> Questions:
    asked = Options().questions(corpus)
    assert asked.imported
    assert asked.counted_pairs.all()
    assert (asked.pairs.kind == PairKind.REFERENCE).any(), "of kernels of others the level may be all that is known"
    return asked


def answered(questions: Questions, sharp: float) -> ForecastTable:
    """Everyone's frequencies, mixed with certainty of the measured bin by this share."""
    shares = np.bincount(questions.pairs.bin - 1, minlength=bins.COUNT) / len(questions.pairs)
    rows = {query.query_id: shares for query in questions.queries}
    for at, number in zip(questions.pairs.query.tolist(), questions.pairs.bin.tolist(), strict=True):
        certain = np.eye(bins.COUNT)[number - 1]
        rows[questions.queries[at].query_id] = (1 - sharp) * shares + sharp * certain
    forecasts = [Forecast(query_id=key, probabilities=tuple(row.tolist())) for key, row in rows.items()]
    return from_forecasts(forecasts, [query.query_id for query in questions.queries])


@pytest.mark.parametrize("sharp", [0.0, 0.5])
def test_who_knows_frequencies_alone_has_skill_over_a_wrong_prior(questions: Questions, sharp: float) -> None:
    wrong = np.eye(bins.COUNT)[0] * 0.92 + 0.01
    elsewhere = dataclasses.replace(questions, kind_priors=dict.fromkeys(questions.kind_priors, wrong))
    found = external_figures(elsewhere, answered(questions, sharp), SETTINGS)
    assert found.over_prior.value > 0.3
    assert found.has_order == (sharp > 0)
    assert (found.over_own.low > 0.1) == (sharp > 0)
    assert ("no order" in found.text()) == (sharp == 0)
    assert found.to_json()["has_order"] == (sharp > 0)


def test_queries_without_shapes_are_counted_and_answered_by_the_baseline(questions: Questions) -> None:
    bare = [dataclasses.replace(query, workloads_json="[]") if at % 2 else query
            for at, query in enumerate(questions.queries)]  # fmt: skip
    half = dataclasses.replace(questions, queries=tuple(bare))
    priors = {kind: np.eye(bins.COUNT)[3] for kind in questions.kind_priors}
    forecasts = {one.query_id: one for one in PriorWithoutShapes(UniformSurrogate(), priors).forecast(bare)}
    for at, query in enumerate(bare):
        given = forecasts[query.query_id].probabilities
        assert given == (tuple(priors[query.kind]) if at % 2 else (1 / 8,) * 8)
    found = external_figures(half, answered(half, 0.0), SETTINGS)
    assert found.without_shapes == len(bare) // 2
    assert "state no workload or no shapes" in found.text()


def test_roofline_reckons_with_shapes_only_where_they_are_stated(corpus: Tables, questions: Questions) -> None:
    bare = tuple(dataclasses.replace(query, workloads_json="[]") for query in questions.queries)
    without = dataclasses.replace(questions, queries=bare)
    shaped, shapeless = (evaluate_on("roofline", corpus, Options(resamples=1), questions=one).table.probabilities
                         for one in (questions, without))  # fmt: skip
    kinds = [query.kind.value for query in bare]
    assert np.allclose(shapeless[0], [questions.kind_priors[kind] for kind in kinds])
    assert not np.allclose(shaped, shapeless)
