"""Scoring: tracks, ceilings, slices, comparisons, and surrogates whose score is known beforehand."""

import dataclasses
import math

import numpy as np
import pytest

from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.bootstrap import Bootstrap
from kbench.benchmark.metrics.metric import PairRows
from kbench.benchmark.metrics.registry import figures, headline
from kbench.benchmark.questions import Questions, build_questions
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.scoring.compare import Comparison
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts import ForecastTable, from_forecasts
from kbench.schemas import Forecast, Score, bins, from_dict, to_dict

FEW = BootstrapSettings(resamples=100, seed=3)


def table_of(questions: Questions, forecasts: list[Forecast]) -> ForecastTable:
    return from_forecasts(forecasts, [query.query_id for query in questions.queries])


@pytest.fixture(scope="module")
def truth(questions: Questions) -> list[Forecast]:
    """Forecasts made with the answers in hand."""
    known: dict[int, float] = dict(zip(questions.pairs.query, questions.pairs.speedup, strict=True))
    known |= {
        at: speedup
        for at, speedup in zip(questions.pools.query, questions.pools.speedup, strict=True)
        if not math.isnan(speedup)
    }
    made = []
    for index, query in enumerate(questions.queries):
        speedup = known.get(index)
        shares = np.eye(8)[bins.bin_of(speedup or 1.0) - 1]
        made.append(Forecast(query_id=query.query_id, probabilities=tuple(shares), speedup=speedup or 0.01))
    return made


def test_who_knows_the_answers_scores_perfectly(questions: Questions, truth: list[Forecast]) -> None:
    found = score(questions, table_of(questions, truth), FEW).figures
    assert found["forecast"]["skill"].value == pytest.approx(1.0)
    assert found["forecast"]["accuracy"].value == 1.0
    assert found["select"]["aurc"].value == 0.0
    assert found["select"]["coverage_at_risk_05"].value == 1.0
    assert found["rank"]["regret_at_10"].value == pytest.approx(0.0)
    assert found["rank"]["spearman"].value == pytest.approx(1.0)
    assert found["edit"]["auroc"].value == 1.0


def test_uniform_forecast_scores_what_it_must(corpus: Tables, questions: Questions) -> None:
    found = evaluate_on("uniform", corpus, Options(resamples=100), questions=questions).scored.figures
    assert found["forecast"]["brier"].value == pytest.approx(0.4375)
    assert found["forecast"]["accuracy"].value == pytest.approx(1 / 8)
    assert found["select"]["aurc"].value == pytest.approx(7 / 8)
    assert found["rank"]["spearman"].value == 0.0
    assert found["edit"]["auroc"].value == 0.5


def test_failures_score_as_uniform_and_are_deferred_first(questions: Questions, truth: list[Forecast]) -> None:
    half = truth[: len(truth) // 2]
    found = score(questions, table_of(questions, half), FEW).figures
    pairs = questions.over_all_workloads().pairs
    answered = np.isin(pairs.query, np.arange(len(half))).mean()
    assert found["forecast"]["accuracy"].value == pytest.approx(answered + (1 - answered) / 8)
    assert found["select"]["coverage_at_risk_05"].value == pytest.approx(answered, abs=0.1)


@pytest.mark.parametrize("speedup", [0.6, 1.2], ids=["all slower", "all faster"])
def test_failures_are_never_covered_whatever_the_truth(questions: Questions, speedup: float) -> None:
    """The uniform forecast in a failure's place leans to 'faster', which must not count as an answer."""
    count, number = 100, bins.bin_of(speedup)
    right = np.eye(bins.COUNT)[np.full(count, number - 1)]
    failed = np.arange(count) >= count // 2
    given = np.where(failed[:, None], 1 / bins.COUNT, right)
    answered = PairRows.all_answered(given, np.full(count, number), np.full(bins.COUNT, 1 / bins.COUNT), 1.0)
    rows = dataclasses.replace(answered, confidence=np.where(failed, 0.0, 1.0), failed=failed)
    found = figures("select", Bootstrap(np.arange(count) % 10, resamples=20), rows)
    for name in ("coverage_at_risk_05", "coverage_at_risk_20", "sign_coverage_at_risk_05", "sign_coverage_at_risk_20"):
        assert found[name].value == 0.5
        assert found[name].draws.max() < 1.0
    assert found["sign_gpu_seconds_per_decision"].value == 0.5
    assert rows.sign_confidence.tolist() == [1.0] * 50 + [0.0] * 50


def test_scores_are_valid_records_and_cover_every_facet(questions: Questions, truth: list[Forecast]) -> None:
    scores = score(questions, table_of(questions, truth), FEW).scores()
    for item in scores:
        assert from_dict(Score, to_dict(item)) == item
    facets = {item.slice.partition("=")[0] for item in scores}
    assert facets == {"all", "family", "backend", "kind", "bin", "runtime", "seen", "author"}


def test_slices_of_a_facet_hold_every_row_once(questions: Questions, truth: list[Forecast]) -> None:
    scores = score(questions, table_of(questions, truth), FEW).slices
    for facet in ("family", "kind", "bin", "runtime"):
        rows = sum(s.rows for s in scores if s.metric == "rps" and s.slice.startswith(f"{facet}="))
        assert rows == questions.counted_pairs.sum()


def test_ceiling_falls_as_measurements_get_noisier(questions: Questions, truth: list[Forecast]) -> None:
    wide = dataclasses.replace(
        questions.pairs, speedup_low=questions.pairs.speedup / 2, speedup_high=questions.pairs.speedup * 2
    )
    noisy = dataclasses.replace(questions, pairs=wide)
    table = table_of(questions, truth)
    sharp, blunt = (score(q, table, FEW).ceilings["forecast"]["accuracy"] for q in (questions, noisy))
    assert sharp > 0.95
    assert blunt < 0.8


def test_every_headline_has_a_ceiling_and_a_floor(questions: Questions, truth: list[Forecast]) -> None:
    scored = score(questions, table_of(questions, truth[::2]), FEW)
    bounds = {track: (scored.floors[track][name], scored.ceilings[track][name])
              for track, name in ((track, headline(track).name) for track in questions.tracks)}  # fmt: skip
    assert bounds["forecast"][0] == pytest.approx(0.0)
    assert bounds["edit"][0] == pytest.approx(0.5)
    for track, (floor, ceiling) in bounds.items():
        assert headline(track).sign * (ceiling - floor) > 0.2, track


def test_skill_is_over_each_kind_s_own_prior(corpus: Tables) -> None:
    """The prior of each kind scores zero on the headline and on the level, whatever one prior for all would score."""
    questions = build_questions(corpus, shots=2)
    by_query = dict(zip(questions.pairs.query.tolist(), questions.pairs.kind.tolist(), strict=True))
    prior = [
        Forecast(query_id=query.query_id, probabilities=tuple(questions.kind_priors[by_query[at]]))
        for at, query in enumerate(questions.queries)
        if at in by_query
    ]
    found = score(questions, table_of(questions, prior), FEW).figures["forecast"]
    assert found["skill"].value == pytest.approx(0.0)
    assert found["level_skill"].value == pytest.approx(0.0)


def test_comparison_is_paired_and_gives_a_verdict(questions: Questions, truth: list[Forecast], corpus: Tables) -> None:
    best = score(questions, table_of(questions, truth), FEW)
    worst = score(questions, table_of(questions, []), FEW)
    found = Comparison.of("truth", best, "nothing", worst)
    assert found.tracks["forecast"]["rps"].verdict == "better"
    assert found.tracks["rank"]["regret_at_10"].verdict == "better"
    assert Comparison.of("nothing", worst, "truth", best).tracks["select"]["aurc"].verdict == "worse"
    assert Comparison.of("a", best, "b", best).tracks["forecast"]["rps"].verdict == "undecided"
    assert "forecast skill ↑: +" in found.text()


def test_one_pool_only_is_clustered_by_kernel(questions: Questions, truth: list[Forecast]) -> None:
    mask = questions.pairs.problem == questions.pairs.problem[0]
    one = dataclasses.replace(questions, pairs=questions.pairs.take(mask), tracks=("forecast",))
    figure = score(one, table_of(questions, truth[::2]), FEW).figures["forecast"]["accuracy"]
    assert figure.low < figure.high
