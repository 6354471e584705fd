"""Few-shot questions: known kernels tell about the pool, and answer no question themselves."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate
from kbench.benchmark.metrics.arrays import LOG2_CENTERS
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.surrogates.known import at_known_level
from kbench.benchmark.surrogates.llm import render
from kbench.benchmark.surrogates.nearest import NearestSurrogate
from kbench.benchmark.surrogates.online import OnlineSurrogate
from kbench.schemas import Forecast, PairKind, Query, UserError, bins, from_dict, to_dict


@pytest.fixture(scope="module")
def shown(corpus: Tables) -> Questions:
    return build_questions(corpus, shots=8)


def test_no_query_is_shown_a_kernel_that_any_asks_about_or_a_variant(corpus: Tables, shown: Questions) -> None:
    kernels = corpus.table("kernels", columns=["problem_id", "normalised", "structure_id"]).to_pylist()
    structure = {(row["problem_id"], row["normalised"]): row["structure_id"] for row in kernels}
    asked, known = set(), set()
    for query in shown.queries:
        asked |= {structure.get((query.problem_id, s)) for s in (query.candidate_source, query.anchor_source)} - {None}
        known |= {structure[query.problem_id, kernel.source] for kernel in query.known}
    assert asked
    assert known
    assert not asked & known


def test_other_numbers_of_shots_are_refused(corpus: Tables, questions: Questions, shown: Questions) -> None:
    assert questions.fingerprint != shown.fingerprint
    with pytest.raises(UserError, match="shots is 3"):
        build_questions(corpus, shots=3)


def test_known_kernels_reach_a_surrogate_and_a_prompt(shown: Questions) -> None:
    queries = [query for query in shown.queries if query.known][:4]
    assert pickle.loads(pickle.dumps(queries)) == queries
    assert from_dict(Query, to_dict(queries[0])) == queries[0]
    text = render(queries[0])
    for kernel in queries[0].known:
        assert kernel.source.strip() in text
        assert f"S = {kernel.speedup:.3f} against the PyTorch reference" in text
    assert "were measured" not in render(build_bare(queries[0]))


def build_bare(query: Query) -> Query:
    return from_dict(Query, to_dict(query) | {"known": []})


def test_forecasts_move_to_the_level_of_the_known_kernels(shown: Questions) -> None:
    asked = [query for query in shown.queries if len(query.known) >= 2]

    def even(queries: Sequence[Query]) -> list[Forecast]:
        return [Forecast(query_id=query.query_id, probabilities=(0.125,) * 8, speedup=1.5) for query in queries]

    for query, forecast in zip(asked, at_known_level(even, asked), strict=True):
        shares = np.asarray(forecast.probabilities)
        if query.kind is not PairKind.REFERENCE:
            assert forecast.probabilities == (0.125,) * 8
            continue
        level = np.mean([np.log2(kernel.speedup) for kernel in query.known])
        before = LOG2_CENTERS.mean()
        assert shares.sum() == pytest.approx(1.0)
        assert abs((shares * LOG2_CENTERS).sum() - level) < max(abs(before - level), 0.3)
        assert forecast.speedup == 1.5


def test_online_and_nearest_learn_from_known_kernels(shown: Questions) -> None:
    query = next(q for q in shown.queries if q.kind is PairKind.REFERENCE and len(q.known) >= 2)
    places = bins.bins_of(np.array([kernel.speedup for kernel in query.known])) - 1
    bare = build_bare(query)
    assert OnlineSurrogate().forecast([bare])[0].failure is not None
    for surrogate in (OnlineSurrogate(), NearestSurrogate()):
        (told,) = surrogate.forecast([query])
        assert sum(told.probabilities[place] for place in set(places.tolist())) > len(set(places.tolist())) / 8
    pair = next(q for q in shown.queries if q.kind is not PairKind.REFERENCE and len(q.known) >= 2)
    (forecast,) = OnlineSurrogate().forecast([pair])
    assert sum(forecast.probabilities) == pytest.approx(1.0)


def test_command_asks_with_shots_and_says_so(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    every = ["--dataset", str(corpus_path), "--surrogate", "prior", "--resamples", "10", "--no-report"]
    every += ["--out", str(out)]
    whole = CliRunner().invoke(evaluate, every, catch_exceptions=False)
    assert "shots" not in whole.stdout.splitlines()[0]
    few = CliRunner().invoke(evaluate, [*every, "--shots", "8"], catch_exceptions=False)
    assert "8 shots" in few.stdout
    assert json.loads((out / "results.json").read_text())["shots"] == 8
    refused = CliRunner().invoke(evaluate, [*every, "--shots", "3"])
    assert refused.exit_code == 2
