"""Release 1 of the dataset: rebuilt from its logs, it has its fingerprint, and its entries score what they scored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kbench.benchmark.scoring.score import BootstrapSettings, score
from kbench.benchmark.surrogates.forecasts.table import align
from kbench.benchmark.surrogates.resolve import BASELINES
from kbench.benchmark.tasks import Questions, build_questions
from kbench.generation.assembly.assemble import assemble
from kbench.leaderboard.board import SUBMISSIONS, expected_of, load_questions, submission_paths
from kbench.leaderboard.probe.probe import probe
from kbench.leaderboard.scoring.results import entry_id, rounded_figure
from kbench.leaderboard.submission.check import check
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.places import shipped

GOLDEN = json.loads(Path(__file__).with_name("golden_scores.json").read_text("utf-8"))
"""Per entry and metric the published value; a headline's comes with both ends of its interval."""
LOGS = Path(__file__).parents[2] / "docs" / "evidence" / "runs"
ENTRIES = submission_paths([SUBMISSIONS / "benchmark-1"])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "one"
    runs = [LOGS / name for name in ("h200-1", "h200-2", "written")]
    assemble(runs, folder, [LOGS / "repeats"], [LOGS / "corrections"], release=1, samples=shipped())
    return folder


@pytest.fixture(scope="module")
def questions(first: Path) -> Questions:
    return load_questions(str(first), None, benchmark=1)


def test_it_is_rebuilt_row_for_row_and_loads(first: Path) -> None:
    assert Corpus.open(first).fingerprint == GOLDEN["dataset"]
    assert load(str(first), problem="softmax", backend="triton").to_arrow().num_rows > 50


def test_its_entries_answer_it(questions: Questions) -> None:
    assert {path.name for path in ENTRIES} >= set(BASELINES) - {"lookup"}
    assert [path.name for path in ENTRIES if not check(path, expected_of(questions)).ok] == []


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.name)
def test_an_entry_scores_its_published_values(questions: Questions, path: Path) -> None:
    checked = check(path)
    assert checked.submission is not None
    table = align(checked.forecasts, [query.query_id for query in questions.queries])
    scored = score(
        questions, table, BootstrapSettings(resamples=GOLDEN["resamples"], seed=GOLDEN["seed"]), sliced=False
    )
    for track, metrics in GOLDEN["entries"][entry_id(checked.submission)].items():
        assert set(scored.figures[track]) >= set(metrics)
        for metric, golden in metrics.items():
            figure = scored.figures[track][metric]
            if isinstance(golden, list):
                assert [rounded_figure(value) for value in (figure.value, figure.low, figure.high)] == golden
            else:
                assert rounded_figure(figure.value) == golden, metric


def test_the_probe_finds_what_its_questions_gave_away(first: Path) -> None:
    found = {(one.about, one.feature): one for one in probe(build_questions(Corpus.open(first), "test")).leaks}
    assert found["validity", "occurrences"].value > 0.9
    assert found["rank", "all, linear"].value > 0.15
