"""The shipped entries: every built-in is a submission like any other, and scores what the results page says."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts import align
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.leaderboard.board import SUBMISSIONS, expected_of, part_name, shipped, submission_paths
from kbench.leaderboard.submission.check import check
from kbench.loaders.card.eval_tasks import WITHOUT_QUESTIONS, eval_facts
from kbench.loaders.corpus.places import shipped as shipped_folder
from kbench.loaders.splits.lineage import published_releases

LARGEST_BYTES = 3_000_000
EVIDENCE = json.loads((Path(__file__).parents[2] / "docs" / "evidence" / "benchmark-2.json").read_text("utf-8"))
"""What docs/results/benchmark-2.md says of every built-in."""
GONE = "rps_skill"
"""A metric that the evidence still records and that is no longer computed."""


def asked_of(options: Options) -> Questions:
    return options.questions(options.corpus())


@pytest.fixture(scope="module")
def newest() -> Questions:
    return asked_of(Options())


@pytest.fixture(scope="module")
def core() -> Questions:
    return asked_of(Options(subset="core"))


def test_every_built_in_is_a_submission_that_answers_the_shipped_dataset(newest: Questions) -> None:
    assert newest.benchmark == 2
    paths = submission_paths([SUBMISSIONS / "benchmark-2"])
    assert {path.name for path in paths} >= set(BASELINES)
    for path in paths:
        checked = check(path, expected_of(newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}; make it again with kbench evaluate"
        assert (path / "forecasts.parquet").stat().st_size < LARGEST_BYTES


@pytest.mark.parametrize("name", BASELINES)
def test_an_entry_of_benchmark_2_scores_what_the_results_page_says(newest: Questions, name: str) -> None:
    checked = check(SUBMISSIONS / "benchmark-2" / name)
    table = align(checked.forecasts, [query.query_id for query in newest.queries])
    figures = score(newest, table, BootstrapSettings(resamples=0), sliced=False).figures
    for track, metrics in EVIDENCE[f"{name}-test"]["tracks"].items():
        for metric, published in metrics.items():
            if metric == GONE:
                continue
            value = figures[track][metric].value
            assert published["value"] == (pytest.approx(value, abs=1e-4) if math.isfinite(value) else None), metric


def test_an_entry_may_answer_core_alone_and_one_that_answers_all_takes_part(
    newest: Questions, core: Questions, tmp_path: Path
) -> None:
    asked = {query.query_id for query in core.queries}
    assert asked < {query.query_id for query in newest.queries}
    whole, part = SUBMISSIONS / "benchmark-2" / "length", tmp_path / "part"
    part.mkdir()
    about = json.loads((whole / "submission.json").read_text("utf-8"))
    (part / "submission.json").write_text(json.dumps(about | {"dataset_fingerprint": newest.dataset}), "utf-8")
    table = pq.read_table(whole / "forecasts.parquet")
    pq.write_table(table.filter(pc.is_in(table["query_id"], pa.array(sorted(asked)))), part / "forecasts.parquet")
    assert check(part, expected_of(core, newest)).ok
    assert check(whole, expected_of(core, newest)).ok
    assert [flaw.field for flaw in check(part, expected_of(newest)).flaws] == ["rows"]
    assert not check(whole, expected_of(core)).ok


def test_an_entry_made_for_another_release_counts_where_its_queries_are_the_same(
    newest: Questions, tmp_path: Path
) -> None:
    entry = tmp_path / "entry"
    shutil.copytree(SUBMISSIONS / "benchmark-2" / "length", entry)
    about = json.loads((entry / "submission.json").read_text("utf-8"))
    for fingerprint, fields in ((sorted(published_releases())[-1], []), ("0" * 32, ["dataset_fingerprint"])):
        (entry / "submission.json").write_text(json.dumps(about | {"dataset_fingerprint": fingerprint}), "utf-8")
        assert [flaw.field for flaw in check(entry, expected_of(newest)).flaws] == fields
    for earlier in published_releases() - {newest.dataset}:
        (entry / "submission.json").write_text(json.dumps(about | {"dataset_fingerprint": earlier}), "utf-8")
        assert check(entry, expected_of(newest)).ok


def test_shipped_entries_for_core_answer_it(newest: Questions, core: Questions) -> None:
    whole, part = shipped(core)
    assert shipped(newest) == [whole]
    for path in submission_paths([part]):
        checked = check(path, expected_of(core, newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}"


def test_shipped_entries_with_shots_answer_core_with_shots(newest: Questions) -> None:
    shown = asked_of(Options(subset="core", shots=8))
    (folder,) = shipped(shown)
    assert part_name(shown) == "core-8-shots"
    for path in submission_paths([folder]):
        checked = check(path, expected_of(shown, newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}"
        assert checked.submission is not None
        assert checked.submission.name.replace(" ", "-").endswith("-8-shots")


def test_the_shipped_dataset_names_its_tasks_for_the_hub() -> None:
    assert yaml.safe_load((shipped_folder() / "eval.yaml").read_text("utf-8")) == eval_facts(WITHOUT_QUESTIONS)
