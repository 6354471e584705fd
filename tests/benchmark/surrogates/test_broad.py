"""Where little is known, forecasts are broad; at home they stay what they are."""

import dataclasses
import json
from types import SimpleNamespace

import numpy as np
import pytest

from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.arrays import Floats
from kbench.benchmark.surrogates import broad
from kbench.benchmark.surrogates.baselines import LengthSurrogate, PriorSurrogate
from kbench.benchmark.surrogates.broad import BROAD, trust, widened
from kbench.benchmark.surrogates.static.kernel_rows import KernelPool
from kbench.benchmark.surrogates.static.model import MODEL_FILE, StaticModel
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import PairKind, Query


@pytest.fixture(scope="module")
def model() -> StaticModel:
    return StaticModel.load(MODEL_FILE)


@pytest.fixture(scope="module")
def home() -> list[Query]:
    """A question of every kind about each validation problem."""
    queries = Options(split="validation", gpu="all").questions(Options().corpus()).queries
    return list({(query.problem_id, query.gpu, query.kind): query for query in queries}.values())


def imported(query: Query) -> Query:
    """The question as an import of the kernel states it: inputs alone, and a GPU of another architecture."""
    workloads = [one | {"outputs": [], "flops": 0} for one in json.loads(query.workloads_json)]
    facts = json.loads(query.gpu_facts_json) | {"compute_capability": "8.0"}
    return dataclasses.replace(query, workloads_json=json.dumps(workloads), gpu_facts_json=json.dumps(facts))


def test_an_answer_that_is_believed_stays_the_same_to_the_bit() -> None:
    given = np.random.default_rng(0).dirichlet(np.ones(8), size=3)
    kinds = list(PairKind)[:3]
    assert np.array_equal(widened(given, kinds, np.ones(3)), given)
    assert widened(given, kinds, np.zeros(3)) == pytest.approx(np.array([BROAD[kind] for kind in kinds]))


def test_broad_forecasts_leave_no_bin_out_and_of_edits_are_the_training_frequencies() -> None:
    for shares in BROAD.values():
        assert shares.sum() == pytest.approx(1.0)
        assert shares.min() > 0.03
    prior = PriorSurrogate()
    prior.fit_corpus(Corpus.open(None))
    assert pytest.approx(prior._shares[PairKind.PARENT_EDIT], abs=0.01) == broad.EDITS


def test_length_says_little_about_problems_of_others_and_keeps_its_order(home: list[Query]) -> None:
    pair = next(query for query in home if query.kind is PairKind.SIBLING)

    def asked(times_longer: int, problem: str = pair.problem_id) -> Query:
        return dataclasses.replace(pair, problem_id=problem, candidate_source=pair.anchor_source * times_longer)

    def answers(problem: str) -> list[Floats]:
        return [np.array(one.probabilities) for one in length.forecast([asked(1, problem), asked(4, problem)])]

    length = LengthSurrogate()
    length.fit([(asked(times), SimpleNamespace(bin=3 + times)) for times in (1, 4) for _ in range(40)])
    near, far = answers(pair.problem_id), answers("elsewhere")
    assert far[0] == pytest.approx(0.25 * near[0] + 0.75 * BROAD[PairKind.SIBLING])
    places = np.arange(8)
    assert far[0] @ places < far[1] @ places
    length.fit([(asked(times, "theirs"), SimpleNamespace(bin=3 + times)) for times in (1, 4) for _ in range(40)])
    assert np.array_equal(answers("elsewhere"), near)


def test_at_home_answers_are_those_of_the_trees(model: StaticModel, home: list[Query]) -> None:
    strange = model.strangeness(model.layout.rows(KernelPool(home)))
    assert (trust(strange) == 1.0).all()


def test_the_answer_about_an_imported_problem_is_wide_and_ordered(model: StaticModel, home: list[Query]) -> None:
    near, far = model.forecast(home), model.forecast([imported(query) for query in home])
    wide = np.array([BROAD[query.kind] for query in home])
    assert np.abs(far.probabilities - wide).max(axis=1).mean() < 0.1
    assert np.abs(near.probabilities - wide).max(axis=1).mean() > 0.2
    assert len(set(far.log2_speedup.tolist())) > len(home) / 2
