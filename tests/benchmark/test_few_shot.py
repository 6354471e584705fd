"""Few-shot questions: known kernels tell about the pool, and answer no question themselves."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from kbench.benchmark.cli import evaluate
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.benchmark_2.few_shot import with_shots
from kbench.benchmark.surrogates.known import CENTERS, at_known_level
from kbench.benchmark.surrogates.llm import render
from kbench.benchmark.surrogates.nearest import NearestSurrogate
from kbench.benchmark.surrogates.online import OnlineSurrogate
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.source.strip import stripped
from kbench.schemas import Forecast, PairKind, Query, UserError, bins, from_dict, to_dict


@pytest.fixture(scope="module")
def shown(corpus: Corpus, questions: Questions) -> Questions:
    return with_shots(questions, corpus, 8)


def test_two_shots_are_the_first_of_eight_and_everyone_sees_the_same(
    corpus: Corpus, questions: Questions, shown: Questions
) -> None:
    few, again = with_shots(questions, corpus, 2), with_shots(build_questions(corpus), corpus, 8)
    assert [query.known[:2] for query in shown.queries] == [query.known for query in few.queries]
    assert again.queries == shown.queries
    assert max(len(query.known) for query in shown.queries) > 2
    assert len({questions.fingerprint, few.fingerprint, shown.fingerprint}) == 3
    assert with_shots(questions, corpus, 0) is questions
    with pytest.raises(UserError, match="shots is 3"):
        with_shots(questions, corpus, 3)


def test_no_query_is_shown_the_kernels_it_asks_about_or_their_variants(corpus: Corpus, shown: Questions) -> None:
    kernels = corpus.table("kernels", columns=["problem_id", "source", "structure_id"]).to_pylist()
    structure = {(row["problem_id"], stripped(row["source"])): row["structure_id"] for row in kernels}
    for query in shown.queries:
        asked = {structure.get((query.problem_id, s)) for s in (query.candidate_source, query.anchor_source)} - {None}
        assert asked
        assert not asked & {structure[query.problem_id, kernel.source] for kernel in query.known}


def test_known_kernels_of_all_queries_together_answer_none(questions: Questions, shown: Questions) -> None:
    """Who collects the speedups that queries give away finds no kernel among them that is asked about."""
    given_away = {(query.problem_id, kernel.source) for query in shown.queries for kernel in query.known}
    assert given_away
    for query in shown.queries:
        asked = {(query.problem_id, source) for source in (query.candidate_source, query.anchor_source)}
        assert not asked & given_away
    assert 0 < len(shown.queries) < len(questions.queries)


def test_labels_stay_with_their_queries(questions: Questions, shown: Questions) -> None:
    answers = {
        (questions.queries[at].query_id, speedup)
        for at, speedup in zip(questions.pairs.query, questions.pairs.speedup, strict=True)
    }
    for at, speedup in zip(shown.pairs.query, shown.pairs.speedup, strict=True):
        assert (shown.queries[at].query_id, speedup) in answers
    for at, candidate in zip(shown.pools.query, shown.pools.candidate, strict=True):
        place = questions.pools.candidate.tolist().index(candidate)
        assert questions.queries[questions.pools.query[place]].query_id == shown.queries[at].query_id


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
    asked = [query for query in shown.queries if len(query.known) >= 3]

    def even(queries: Sequence[Query]) -> list[Forecast]:
        return [Forecast(query_id=query.query_id, probabilities=(0.125,) * 8, speedup=1.5) for query in queries]

    for query, forecast in zip(asked, at_known_level(even, asked), strict=True):
        shares = np.asarray(forecast.probabilities)
        if query.kind is not PairKind.REFERENCE:
            assert forecast.probabilities == (0.125,) * 8
            continue
        level = np.mean([np.log2(kernel.speedup) for kernel in query.known])
        before = CENTERS.mean()
        assert shares.sum() == pytest.approx(1.0)
        assert abs((shares * CENTERS).sum() - level) < max(abs(before - level), 0.3)
        assert forecast.speedup == 1.5


def test_online_and_nearest_learn_from_known_kernels(shown: Questions) -> None:
    query = next(q for q in shown.queries if q.kind is PairKind.REFERENCE and len(q.known) >= 3)
    places = bins.bins_of(np.array([kernel.speedup for kernel in query.known])) - 1
    bare = build_bare(query)
    assert OnlineSurrogate().forecast([bare])[0].failure is not None
    for surrogate in (OnlineSurrogate(), NearestSurrogate()):
        (told,) = surrogate.forecast([query])
        assert told.probabilities is not None
        assert sum(told.probabilities[place] for place in set(places.tolist())) > len(set(places.tolist())) / 8
    pair = next(q for q in shown.queries if q.kind is not PairKind.REFERENCE and len(q.known) >= 3)
    (forecast,) = OnlineSurrogate().forecast([pair])
    assert forecast.probabilities is not None
    assert sum(forecast.probabilities) == pytest.approx(1.0)


def test_command_asks_with_shots_and_says_so(corpus_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "o"
    every = [
        "--dataset",
        str(corpus_path),
        "--surrogate",
        "prior",
        "--resamples",
        "10",
        "--no-report",
        "--out",
        str(out),
    ]
    whole = CliRunner().invoke(evaluate, every, catch_exceptions=False)
    assert "shots" not in whole.stdout.splitlines()[0]
    few = CliRunner().invoke(evaluate, [*every, "--shots", "8"], catch_exceptions=False)
    assert "8 shots" in few.stdout
    assert json.loads((out / "results.json").read_text())["shots"] == 8
    refused = CliRunner().invoke(evaluate, [*every, "--shots", "3"])
    assert refused.exit_code == 2
