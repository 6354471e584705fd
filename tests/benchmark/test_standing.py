"""The first lines of a result: where a surrogate stands, and why it stands below zero."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from kbench.benchmark.evaluate import results as standing
from kbench.benchmark.evaluate.evaluate import evaluate_on
from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.evaluate.results import EvaluationResults, MetricResult, terminal
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
    assert head == ["", "length", "prior", "first model", "best built-in", "language model", "ceiling"]
    assert forecast[3:6] == ["0.100", "0.300 nearest", "0.400 (core)"]
    lines = terminal(found).splitlines()
    assert lines[2].split()[:2] == ["length", "prior"]
    assert len(standing.standing_rows(found)) == 1 + len(found.tracks)


def test_other_questions_have_no_others_beside_them(found: EvaluationResults, others: None) -> None:
    for changes in ({"dataset": "another"}, {"shots": 2}, {"split": "test_near"}):
        assert standing.standing_rows(dataclasses.replace(found, **changes))[0][1:] == ["length", "prior", "ceiling"]
    shots = dataclasses.replace(found, subset="core", shots=8)
    assert standing.standing_rows(shots)[1][3:6] == ["–", "0.500 online", "–"], "core without shots is not beside it"
    assert "a part of them" in standing.standing_notes(dataclasses.replace(found, limited=True))[0]


@pytest.mark.parametrize(("sign", "said"), [(0.4, "because of the order"), (0.7, "because of the confidence")])
def test_a_skill_below_zero_is_explained(found: EvaluationResults, sign: float, said: str) -> None:
    figures = {"skill": MetricResult(-0.2, -0.3, -0.1, 0.9, 0.0), "ece": MetricResult(0.3, 0.2, 0.4, 0.0, 0.1)}
    figures["sign_accuracy"] = MetricResult(sign, None, None, 1.0, 0.6)
    changed = dataclasses.replace(found, tracks={"forecast": figures})
    assert said in standing.standing_notes(changed)[-1]
    better = {**figures, "skill": MetricResult(0.1, 0.0, 0.2, 0.9, 0.0)}
    assert standing.standing_notes(dataclasses.replace(found, tracks={"forecast": better})) == []


def test_the_recorded_figures_are_of_the_shipped_dataset() -> None:
    recorded = json.loads(standing.STANDINGS.read_text("utf-8"))
    assert recorded["dataset"] == Corpus.open(None).fingerprint
    assert {standing.FIRST, "static"} <= set(recorded["entries"])
