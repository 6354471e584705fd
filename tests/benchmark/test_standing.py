"""The first lines of a result: where a surrogate stands, and why it stands below zero."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kbench.benchmark.evaluate import below_zero
from kbench.benchmark.evaluate import results as standing
from kbench.benchmark.evaluate.below_zero import why_below_zero
from kbench.benchmark.evaluate.evaluate import Evaluation, evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.report import render
from kbench.benchmark.evaluate.results import EvaluationResults, Failures, terminal
from kbench.benchmark.llm.chat import OVER_BUDGET
from kbench.benchmark.metrics.bootstrap import Figure
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.scoring.compare import beside_probes
from kbench.benchmark.scoring.score import Scored, score
from kbench.loaders.corpus.corpus import Corpus


@pytest.fixture(scope="module")
def found(corpus_path: Path) -> EvaluationResults:
    """What `length` reaches on the tests' corpus."""
    return EvaluationResults.of(evaluate_on("length", Corpus.open(corpus_path), Options(resamples=20)))


@pytest.fixture
def others(found: EvaluationResults, monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures of others on that corpus."""
    entries: dict[str, Any] = {
        "online": {"core-8-shots": {"forecast": {"skill": 0.5}}},
        "static": {"test": {"forecast": {"skill": 0.2}}}, "nearest": {"test": {"forecast": {"skill": 0.3}}},
        standing.FIRST: {"test": {"forecast": {"skill": 0.1}}},
        standing.LANGUAGE_MODEL: {"core": {"forecast": {"skill": 0.4}}},
    }  # fmt: skip
    monkeypatch.setattr(standing, "_standings", lambda: {"dataset": found.dataset, "entries": entries})


def test_a_result_begins_with_others_on_the_same_questions(found: EvaluationResults, others: None) -> None:
    head, forecast, *_ = standing.standing_rows(found)
    assert head == ["", "length", "floor", "first model", "best built-in", "claude zero-shot", "ceiling"]
    assert forecast[3:6] == ["0.100", "0.300 nearest", "0.400 (core)"]
    lines = terminal(found).splitlines()
    assert lines[2].split()[:2] == ["length", "floor"]
    assert len(standing.standing_rows(found)) == 1 + len(found.tracks)


def test_a_built_in_beside_itself_has_one_figure(found: EvaluationResults, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = {"dataset": found.dataset, "entries": {"length": {"test": {"forecast": {"skill": 9.0}}}}}
    monkeypatch.setattr(standing, "_standings", lambda: recorded)
    row = standing.standing_rows(found)[1]
    assert row[4] == f"{row[1]} length"
    assert standing.standing_rows(dataclasses.replace(found, found_at="a file"))[1][4] == "9.000 length"
    assert standing.standing_rows(dataclasses.replace(found, arguments={"a": 1}))[1][4] == "9.000 length"


def test_other_questions_have_no_others_beside_them(found: EvaluationResults, others: None) -> None:
    for changes in ({"dataset": "another"}, {"shots": 2}, {"split": "test_near"}):
        assert standing.standing_rows(dataclasses.replace(found, **changes))[0][1:] == ["length", "floor", "ceiling"]
    shots = dataclasses.replace(found, subset="core", shots=8)
    assert standing.standing_rows(shots)[1][3:6] == ["–", "0.500 online", "–"], "core without shots is not beside it"
    assert "a part of them" in standing.standing_notes(dataclasses.replace(found, limited=True))[0]


def test_in_brief_the_headlines_stand_alone(found: EvaluationResults) -> None:
    lines = terminal(found, brief=True).splitlines()
    assert [line.split()[1] for line in lines if line.startswith((" * ", " ~ "))] == [*found.headlines.values()]
    assert not any(word in line for line in lines for word in ("RANK", "ndcg", "probe: "))
    assert any(line.startswith("overall ") for line in lines)


def test_a_few_questions_have_no_headlines(corpus_path: Path, found: EvaluationResults) -> None:
    evaluation = evaluate_on("length", Corpus.open(corpus_path), Options(resamples=20, limit=9))
    few = EvaluationResults.of(evaluation)
    assert few.too_few.startswith("9 of the questions make no headline, only a check that it runs")
    assert few.overall is None
    assert few.to_json()["too_few"] == few.too_few
    text, page = terminal(few), render(evaluation)
    assert few.too_few in text
    assert few.too_few in page
    assert "* " not in text
    assert "overall" not in text
    assert 'class="head"' not in page
    assert found.too_few is None, "a small corpus is asked whole"


def test_the_questions_of_one_problem_are_too_few(corpus_path: Path) -> None:
    problem = Corpus.open(corpus_path).table("questions", split="test").column("problem_id")[0].as_py()
    few = EvaluationResults.of(
        evaluate_on("length", Corpus.open(corpus_path), Options(resamples=20, problems=(problem,)))
    )
    assert "too few for headlines, from 300 on: this is only a check that it runs" in few.too_few


def test_an_evaluation_is_shown_in_a_line(corpus_path: Path) -> None:
    shown = repr(evaluate_on("length", Corpus.open(corpus_path), Options(resamples=20)))
    assert re.fullmatch(r"<length on [\d,]+ queries of test: skill -?\d\.\d+, .*>", shown)


def test_validation_has_a_yardstick_and_no_language_model(
    found: EvaluationResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = {part: {"forecast": {"skill": skill}} for part, skill in (("validation", 0.3), ("validation-core", 0.4))}
    entries = dict.fromkeys(("static", standing.FIRST), figures)
    monkeypatch.setattr(standing, "_standings", lambda: {"dataset": found.dataset, "entries": entries})
    head, forecast, *_ = standing.standing_rows(dataclasses.replace(found, split="validation"))
    assert head == ["", "length", "floor", "first model", "best built-in", "ceiling"]
    assert forecast[3:5] == ["0.300", "0.300 static"]
    assert "no language model" in standing.standing_notes(dataclasses.replace(found, split="validation"))[-1]
    core = dataclasses.replace(found, split="validation", subset="core")
    assert standing.standing_rows(core)[1][3:] == ["0.400", "0.400 static", standing.standing_rows(core)[1][-1]]
    part = dataclasses.replace(core, shots=2)
    assert "no first model or built-in beside it" in standing.standing_notes(part)[0]


@pytest.mark.parametrize(("spread", "mark"), [(0.05, "*"), (0.3, "~")])
def test_a_headline_is_marked_by_the_probe_beside_it(found: EvaluationResults, spread: float, mark: str) -> None:
    """The other probe, which is weaker and surely exceeded, decides nothing."""
    wide = np.linspace(-spread, spread, 40)
    mine, names, layout = (
        Scored(
            figures={"forecast": {"skill": Figure(value, value + draws)}}, ceilings={}, floors={}, slices=(), rows={}
        )
        for value, draws in ((0.3, 0 * wide), (0.2, wide), (0.1, 0 * wide))
    )
    probes = beside_probes(mine, {"names": names, "layout": layout})
    shown = dataclasses.replace(found, probes=probes, tracks={"forecast": found.tracks["forecast"]})
    lines = terminal(shown).splitlines()
    assert [line.split()[0] for line in lines if "names 0.200" in line] == [mark]
    assert [line[0] for line in lines if line[:2] in ("* ", "~ ")] == [mark], "a legend for what occurs"


@pytest.fixture(scope="module")
def uniform(corpus_path: Path) -> Evaluation:
    """What is surely worse than the training frequencies."""
    return evaluate_on("uniform", Corpus.open(corpus_path), Options(resamples=20))


def answered(evaluation: Evaluation, probabilities: np.ndarray, split: str = "test") -> EvaluationResults:
    """The results of other answers to the same questions."""
    shares = probabilities / probabilities.sum(axis=1, keepdims=True)
    table = dataclasses.replace(evaluation.table, probabilities=shares[None])
    questions = dataclasses.replace(evaluation.questions, split=split)
    scored = score(questions, table, evaluation.options.bootstrap)
    return EvaluationResults.of(dataclasses.replace(evaluation, table=table, questions=questions, scored=scored))


def test_a_skill_below_zero_is_explained(uniform: Evaluation) -> None:
    flat = EvaluationResults.of(uniform)
    assert flat.below_zero is not None
    assert flat.below_zero.startswith("skill is below 0 because probabilities are too flat (they expect an RPS of")
    assert standing.standing_notes(flat)[-1] == flat.below_zero == flat.to_json()["below_zero"]
    assert flat.below_zero in render(uniform)
    above = {"forecast": {"skill": Figure(-0.1, np.linspace(-0.2, 0.1, 40))}}
    unsure = dataclasses.replace(uniform, scored=dataclasses.replace(uniform.scored, figures=above))
    assert (why_below_zero(unsure) or "").startswith("skill is below 0, though not surely, because probabilities")
    failed = dataclasses.replace(uniform.table, failed=np.ones_like(uniform.table.failed))
    assert why_below_zero(dataclasses.replace(uniform, table=failed)) is None


@pytest.mark.parametrize(
    ("power", "moved", "inverted", "causes"),
    [
        (1.0, 0, False, []), (1.0, 0, True, ["order"]), (1.0, 2, False, ["level"]),
        (8.0, 0, True, ["order", "sharp"]), (8.0, 3, False, ["level", "sharp"]), (0.05, 0, False, ["flat"]),
    ],
)  # fmt: skip
def test_order_level_and_confidence_are_told_apart(
    uniform: Evaluation, power: float, moved: int, inverted: bool, causes: list[str]
) -> None:
    """Forecasts that miss by a bin at times and know it, made wrong in one way or two."""
    pairs = uniform.questions.pairs
    places = pairs.bin - 1 + np.random.default_rng(0).choice([-1, 0, 0, 0, 1], len(pairs))
    right = np.full((len(uniform.questions.queries), 8), 1 / 8)
    right[pairs.query] = np.exp(-1.2 * np.abs(np.arange(8) - places[:, None]))
    wrong = below_zero._shifted(right**power, moved)
    for split in ("test", "validation"):
        why = answered(uniform, below_zero._inverted(wrong) if inverted else wrong, split).below_zero
        said = {"order": "order is reversed", "level": "level is shifted", "sharp": "too sharp", "flat": "too flat"}
        assert [name for name, text in said.items() if text in (why or "")] == causes
        on_validation = "its gain shows on test only" in (why or "")
        assert on_validation == (split == "validation" and bool({"sharp", "flat"} & {*causes}))


def test_the_notes_say_where_figures_of_others_are_from_or_that_there_are_none(
    found: EvaluationResults, others: None
) -> None:
    assert headline("forecast").text(-0.0004) == "0.000", "not -0.000"
    assert "the best of each track" in standing.standing_notes(found)[-1]
    assert (
        "recorded for test, validation, the core of each"
        in standing.standing_notes(dataclasses.replace(found, split="test_near"))[0]
    )
    assert standing.standing_notes(dataclasses.replace(found, dataset="another")) == []
    warned = dataclasses.replace(found, warning="most have no answer")
    assert terminal(warned).splitlines()[0] == "most have no answer"


def test_reasons_that_are_not_shown_are_counted(found: EvaluationResults) -> None:
    reasons = {f"reason {number}": 1 for number in range(7)}
    text = terminal(dataclasses.replace(found, failures=Failures(7, reasons, 8)))
    assert "  1 × reason 4\n  and 3 other reasons, in results.json" in text


def test_errors_of_a_provider_come_first_and_refusals_for_the_budget_are_one_reason(corpus_path: Path) -> None:
    evaluation = evaluate_on("length", Corpus.open(corpus_path), Options(resamples=2, limit=9))
    reasons = ["no answer"] * 4 + ["error expired"] + [f"{OVER_BUDGET}: {n} of 9 are left" for n in range(3)] + [None]
    failed = [dataclasses.replace(f, failure=why) for f, why in zip(evaluation.run.forecasts, reasons, strict=True)]
    run = dataclasses.replace(evaluation.run, forecasts=tuple(failed))
    found = Failures.of(dataclasses.replace(evaluation, run=run))
    assert list(found.reasons.items()) == [("error expired", 1), ("no answer", 4), (OVER_BUDGET, 3)]
    assert found.kinds == 3


def test_the_recorded_figures_are_of_the_shipped_dataset() -> None:
    recorded = json.loads(standing.STANDINGS.read_text("utf-8"))
    assert recorded["dataset"] == Corpus.open(None).fingerprint
    assert {standing.FIRST, "static"} <= set(recorded["entries"])
