"""The shipped entries: every built-in is a submission like any other, and scores what the results page says."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kbench.benchmark.evaluate.options import Options
from kbench.benchmark.metrics.registry import headline
from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts import align
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.leaderboard.board import SUBMISSIONS, expected_of, part_name, shipped, submission_paths
from kbench.leaderboard.submission.check import check

LARGEST_BYTES = 3_000_000
EVIDENCE = json.loads((Path(__file__).parents[2] / "docs" / "evidence" / "benchmark.json").read_text("utf-8"))
"""What docs/results/benchmark.md says of every entry."""


def asked_of(options: Options) -> Questions:
    return options.questions(options.corpus())


@pytest.fixture(scope="module")
def newest() -> Questions:
    return asked_of(Options())


@pytest.fixture(scope="module")
def core() -> Questions:
    return asked_of(Options(subset="core"))


def test_every_built_in_is_a_submission_that_answers_the_shipped_dataset(newest: Questions) -> None:
    paths = submission_paths([SUBMISSIONS / "test"])
    assert [path.name for path in paths] == [path.name for path in shipped(newest)]
    assert {path.name for path in paths} >= set(BASELINES)
    for path in paths:
        checked = check(path, expected_of(newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}; make it again with kbench evaluate"
        assert (path / "forecasts.parquet").stat().st_size < LARGEST_BYTES


def test_entries_score_what_the_results_page_says(newest: Questions) -> None:
    ids, stated = [query.query_id for query in newest.queries], EVIDENCE["test"]
    assert EVIDENCE["dataset"] == newest.dataset
    for path in shipped(newest):
        figures = score(newest, align(check(path).forecasts, ids), BootstrapSettings(resamples=0), sliced=False).figures
        for track in newest.tracks:
            value = figures[track][headline(track).name].value
            assert stated[track]["entries"][path.name]["value"] == pytest.approx(value, abs=1e-4), (path.name, track)


def test_an_entry_may_answer_core_alone_or_everything(newest: Questions, core: Questions, tmp_path: Path) -> None:
    asked = {query.query_id for query in core.queries}
    assert asked < {query.query_id for query in newest.queries}
    whole, part = SUBMISSIONS / "test" / "length", tmp_path / "part"
    part.mkdir()
    about = json.loads((whole / "submission.json").read_text("utf-8"))
    (part / "submission.json").write_text(json.dumps(about | {"dataset_fingerprint": newest.dataset}), "utf-8")
    table = pq.read_table(whole / "forecasts.parquet")
    pq.write_table(table.filter(pc.is_in(table["query_id"], pa.array(sorted(asked)))), part / "forecasts.parquet")
    assert check(part, expected_of(core, newest)).ok
    assert check(whole, expected_of(core, newest)).ok
    assert [flaw.field for flaw in check(part, expected_of(newest)).flaws] == ["rows"]
    assert not check(whole, expected_of(core)).ok


@pytest.mark.parametrize("options", [Options(subset="core"), Options(subset="core", shots=8)], ids=part_name)
def test_shipped_entries_for_a_part_answer_it(newest: Questions, options: Options) -> None:
    part = asked_of(options)
    for path in shipped(part):
        checked = check(path, expected_of(part, newest))
        assert checked.ok, f"{path.name}: {checked.flaws[0]}"
        assert checked.submission.name.replace(" ", "-").endswith("-8-shots") == (options.shots == 8)
