"""The shipped entries: every built-in is a submission like any other, and scores what the results page says."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import yaml

from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts.table import align
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.benchmark.tasks import Questions
from kbench.leaderboard.board import SUBMISSIONS, expected_of, load_questions, submission_paths
from kbench.leaderboard.submission.check import check
from kbench.loaders.card.eval_tasks import eval_facts
from kbench.loaders.corpus.places import shipped as shipped_folder

LARGEST_BYTES = 3_000_000
EVIDENCE = json.loads((Path(__file__).parents[2] / "docs" / "evidence" / "benchmark-2.json").read_text("utf-8"))
"""What docs/results/benchmark-2.md says of every built-in."""


@pytest.fixture(scope="module")
def newest() -> Questions:
    return load_questions(None, None)


def test_every_built_in_is_a_submission_that_answers_the_shipped_dataset(newest: Questions) -> None:
    assert newest.benchmark == 2
    paths = submission_paths([SUBMISSIONS / "benchmark-2"])
    assert {path.name for path in paths} >= set(BASELINES)
    for path in paths:
        checked = check(path, expected_of(newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}; run: kbench leaderboard baselines"
        assert (path / "forecasts.parquet").stat().st_size < LARGEST_BYTES


@pytest.mark.parametrize("name", BASELINES)
def test_an_entry_of_benchmark_2_scores_what_the_results_page_says(newest: Questions, name: str) -> None:
    checked = check(SUBMISSIONS / "benchmark-2" / name)
    table = align(checked.forecasts, [query.query_id for query in newest.queries])
    figures = score(newest, table, BootstrapSettings(resamples=0), sliced=False).figures
    for track, metrics in EVIDENCE[f"{name}-test"]["tracks"].items():
        for metric, published in metrics.items():
            value = figures[track][metric].value
            assert published["value"] == (pytest.approx(value, abs=1e-4) if math.isfinite(value) else None), metric


def test_the_shipped_dataset_names_its_tasks_for_the_hub() -> None:
    assert yaml.safe_load((shipped_folder() / "eval.yaml").read_text("utf-8")) == eval_facts()
