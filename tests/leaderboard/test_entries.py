"""The shipped entries: every built-in is a submission like any other, and its results are what it scores."""

from __future__ import annotations

import dataclasses

import pytest
import yaml

from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.benchmark.tasks import Questions
from kbench.leaderboard.board import (
    RESULTS,
    SUBMISSIONS,
    expected_of,
    load_questions,
    read_all_results,
    score_all,
    submission_paths,
)
from kbench.leaderboard.hub import eval_yaml
from kbench.leaderboard.scoring.results import entry_id
from kbench.leaderboard.submission.check import check
from kbench.loaders.corpus.corpus import shipped as shipped_folder

LARGEST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def shipped() -> Questions:
    return load_questions(None, None)


def test_every_built_in_is_a_submission_that_answers_the_shipped_dataset(shipped: Questions) -> None:
    paths = submission_paths([SUBMISSIONS])
    assert {path.name for path in paths} >= set(BASELINES)
    for path in paths:
        checked = check(path, expected_of(shipped))
        assert checked.ok, f"{path.name}: {checked.findings[0]}; run: kbench leaderboard baselines"
        assert (path / "forecasts.parquet").stat().st_size < LARGEST_BYTES


def test_every_submission_has_results_of_the_shipped_dataset(shipped: Questions) -> None:
    results = read_all_results(RESULTS)
    submitted = [check(path).submission for path in submission_paths([SUBMISSIONS])]
    assert {result.entry_id for result in results} == {entry_id(one) for one in submitted if one is not None}
    assert {result.dataset_fingerprint for result in results} == {shipped.dataset}


def test_an_entry_s_stored_results_are_what_its_forecasts_score(shipped: Questions) -> None:
    (stored,) = [result for result in read_all_results(RESULTS) if result.submission.name == "prior"]
    settings = BootstrapSettings(resamples=stored.resamples, seed=stored.seed)
    (scored,) = score_all([SUBMISSIONS / "prior"], shipped, settings)
    # Flags compare an entry with all others, so scoring it alone may find fewer.
    assert dataclasses.replace(scored, flags=stored.flags).to_json() == stored.to_json()


def test_the_shipped_dataset_names_its_tasks_for_the_hub() -> None:
    assert yaml.safe_load((shipped_folder() / "eval.yaml").read_text("utf-8")) == eval_yaml()
