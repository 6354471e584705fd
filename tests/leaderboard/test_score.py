"""Scores are recomputed from forecasts, and come out the same to the bit wherever they are made."""

import dataclasses
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.special
from submission_copy import Rows, submission_copy

from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.rows import pool_scores
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.benchmark.surrogates.forecasts import from_forecasts
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.results import Results, write_results
from kbench.leaderboard.scoring.score import PAGE_RESAMPLES
from kbench.leaderboard.submission.labels import read_labels, write_labels, write_queries
from kbench.schemas import DataError, UserError

SETTINGS = BootstrapSettings(resamples=50)
SCORING = """
import sys
from pathlib import Path
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.board import score_all
from kbench.leaderboard.scoring.results import write_results
from kbench.leaderboard.submission.labels import read_labels
*submissions, labels, out = map(Path, sys.argv[1:])
write_results(score_all(submissions, read_labels(labels), BootstrapSettings(resamples=50)), out)
"""

BARE = """
import json, sys
from pathlib import Path
class Absent:
    def find_spec(self, name, path=None, target=None):
        absent = ("polars", "jsonschema", "datasets", "scoringrules", "matplotlib", "torch", "yaml")
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
from kbench.benchmark.surrogates.forecasts import align, read_forecasts
from kbench.leaderboard.submission.labels import read_labels
from kbench.leaderboard.scoring.score import score_submission
from kbench.schemas import Submission, from_dict
folder, labels = map(Path, sys.argv[1:])
submission = from_dict(Submission, json.loads((folder / "submission.json").read_text("utf-8")))
questions = read_labels(labels)
table = align(read_forecasts(folder / "forecasts.parquet"), [query.query_id for query in questions.queries])
result = score_submission(submission, table, questions)
print(result.value("forecast", "skill"))
"""


def _text(results: list[Results]) -> str:
    return json.dumps([result.to_json() for result in results], allow_nan=False)


def _another_processor() -> dict[str, str]:
    """An environment in which NumPy, the matrix library and the C library run their code for the plainest processor."""
    had = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(had),
        "OPENBLAS_CORETYPE": "ARMV8" if platform.machine() == "aarch64" else "Prescott",
        "OPENBLAS_NUM_THREADS": "1",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F",
    }


def test_scores_are_the_same_to_the_bit_on_another_processor(
    submissions: dict[str, Path], questions: Questions, results: list[Results], tmp_path: Path
) -> None:
    write_labels(questions, tmp_path / "private.parquet")
    paths = [str(path) for path in submissions.values()]
    subprocess.run(
        [sys.executable, "-c", SCORING, *paths, str(tmp_path / "private.parquet"), str(tmp_path / "there")],
        check=True,
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path), **_another_processor()},
    )
    here = write_results(results, tmp_path / "here")
    assert len(here) == len(submissions)
    for path in here:
        assert (tmp_path / "there" / path.name).read_bytes() == path.read_bytes()


def _unsteady(function: Callable[..., Any], generator: np.random.Generator) -> Callable[..., Any]:
    """The function with outcomes up to two units off in the last place, as another library's may be."""

    def off(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        return found * (1.0 + generator.integers(-2, 3, np.shape(found)) * 2.0**-52)

    return off


@pytest.mark.parametrize("seed", [1, 2])
def test_scores_are_the_same_to_the_bit_where_every_logarithm_ends_in_other_bits(
    seed: int,
    submissions: dict[str, Path],
    questions: Questions,
    results: list[Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(seed)
    for name in ("log", "log2", "exp", "einsum", "interp", "sqrt"):
        monkeypatch.setattr(np, name, _unsteady(getattr(np, name), generator))
    monkeypatch.setattr(scipy.special, "ndtr", _unsteady(scipy.special.ndtr, generator))
    assert np.log(np.full(100, 3.0)).std() > 0
    assert _text(score_all(list(submissions.values()), questions, SETTINGS)) == _text(results)


def test_forecasts_that_differ_in_their_last_bit_alone_are_tied(questions: Questions) -> None:
    pools, shape = questions.pools, (1, len(questions.queries))
    generator = np.random.default_rng(0)
    forecasts = from_forecasts([], [query.query_id for query in questions.queries])
    level = dataclasses.replace(forecasts, speedup=np.full(shape, 1.1))
    uneven = dataclasses.replace(forecasts, speedup=1.1 * (1.0 + generator.integers(0, 4, shape) * 2.0**-52))
    assert len(np.unique(uneven.speedup)) > 1
    assert len(np.unique(pool_scores(pools, level))) == 1
    assert np.array_equal(pool_scores(pools, uneven), pool_scores(pools, level))


def test_scoring_needs_no_larger_library(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    write_labels(questions, tmp_path / "private.parquet")
    done = subprocess.run(
        [sys.executable, "-c", BARE, str(submissions["length"]), str(tmp_path / "private.parquet")],
        check=True,
        env={"PATH": os.defpath, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert float(done.stdout) > -1.0


def test_a_file_that_is_no_labels_file_is_refused(submissions: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="not a labels file"):
        read_labels(submissions["prior"] / "forecasts.parquet")


def test_exported_queries_hold_no_answers(questions: Questions, tmp_path: Path, board_corpus: Path) -> None:
    """No column but a query's, no note in the file but the dataset's fingerprint, no measured number in any text."""
    written = write_queries(questions, tmp_path / "queries")
    assert [path.stem for path in written] == list(questions.tracks)
    table = pq.read_table(tmp_path / "queries" / "forecast.parquet")
    assert table.column_names == [
        "query_id", "problem_id", "family", "problem_text", "workloads_json", "backend", "kind", "anchor_source",
        "candidate_source", "gpu", "gpu_facts_json", "known",
    ]  # fmt: skip
    facts = {"track": "forecast", "dataset": questions.dataset, "split": "test", "subset": None}
    assert table.schema.metadata == {
        b"kbench.questions": json.dumps(facts | {"shots": 0, "gpu": "NVIDIA H200"}).encode()
    }
    assert table.column("query_id").to_pylist() == sorted(table.column("query_id").to_pylist())
    everything = " ".join(str(value) for row in table.to_pylist() for value in row.values())
    answers = [*questions.pairs.speedup.tolist(), *questions.pools.runtime_us[questions.pools.valid].tolist()]
    assert len(answers) > 50
    assert not any(f"{answer:.6g}" in everything for answer in answers)
    kernels = pq.read_table(board_corpus / "kernels").column("kernel_id").to_pylist()
    assert not any(kernel in everything for kernel in kernels)


def test_headlines_are_compared_by_every_draw_also_on_core(submissions: dict[str, Path], questions: Questions) -> None:
    """Fewer could decide what the evaluation leaves undecided."""
    settings = BootstrapSettings(resamples=PAGE_RESAMPLES + 1)
    (result,) = score_all([submissions["length"]], questions, settings)
    for draws in (result.draws, result.core_draws):
        assert {len(draws[track]) for track in (*result.submission.tracks, "overall")} == {settings.resamples}


def test_a_flawed_submission_is_not_scored(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    (tmp_path / "entry").mkdir()
    (tmp_path / "entry" / "submission.json").write_text("{}", "utf-8")
    with pytest.raises(UserError, match=r"and .* more: kbench leaderboard check"):
        score_all([tmp_path / "entry"], questions, SETTINGS)


def test_the_risk_curve_ends_where_accuracy_says(results: list[Results]) -> None:
    for result in results:
        accuracy = result.value("forecast", "accuracy")
        assert result.curves["risk_coverage"][-1] == [1.0, pytest.approx(1.0 - accuracy, abs=2e-6)]


@pytest.mark.parametrize(
    ("track", "curves"), [("forecast", {"reliability"}), ("select", {"risk_coverage"}), ("rank", {"regret"})]
)
def test_only_tracks_that_were_entered_are_scored_and_drawn(
    submissions: dict[str, Path], questions: Questions, tmp_path: Path, track: str, curves: set[str]
) -> None:
    entry = submission_copy(submissions["prior"], tmp_path / "entry", tracks=[track])
    (result,) = score_all([entry], questions, SETTINGS)
    assert set(result.curves) == curves
    assert {score.track for score in result.scores} == {track, "overall"}
    assert {name.split(".")[0] for name in result.draws} == {track, "overall"}


def test_a_repeat_that_says_the_same_changes_no_figure(
    submissions: dict[str, Path], questions: Questions, results: list[Results], tmp_path: Path
) -> None:
    def both(rows: Rows) -> Rows:
        return [row | {"repeat": repeat} for repeat in (0, 1) for row in rows]

    (twice,) = score_all([submission_copy(submissions["length"], tmp_path, both, repeats=2)], questions, SETTINGS)
    (once,) = [result for result in results if result.submission.name == "length"]
    assert twice.flags == []
    values = {(s.track, s.metric, s.slice): s.value for s in twice.scores}
    for score in once.scores:
        # Areas and buckets are cut by rows, so doubling the rows moves a cut a little.
        if score.track != "select" and score.metric != "ece_adaptive":
            assert values[score.track, score.metric, score.slice] == pytest.approx(score.value, abs=2e-6), score
