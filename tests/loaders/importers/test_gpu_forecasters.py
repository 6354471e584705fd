"""The published release imports whole; each of its seven traps is in the fixtures and is handled."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.build import build_questions
from kbench.benchmark.questions.corpus_view import benchmark_of
from kbench.generation.executors.replay import open_recording
from kbench.generation.search.state import outcome_of
from kbench.loaders.checks.validate import validate
from kbench.loaders.corpus.corpus import EVERY_GPU, Corpus, load
from kbench.loaders.importers.gpu_forecasters import FAMILY, PROBLEMS
from kbench.loaders.importers.reader import Report
from kbench.schemas import Backend, DataError, KernelSource, bins

from .conftest import PREDICTIONS, Run, eval_row, prediction, write

Imported = tuple[Path, Report]


def test_the_whole_release_becomes_a_valid_corpus(imported: Imported) -> None:
    folder, report = imported
    assert validate(Corpus.open(folder)) == []
    splits = Counter(load(folder, config="questions").to_arrow().column("split").to_pylist())
    assert splits == {"test": 7, "train": 3, "test_seen": 1}
    assert report.bad_count == 0
    assert report.notes["files of config combined skipped, because they repeat the others"] == 1
    rows = load(folder, config="measurements").to_arrow().to_pylist()
    assert Counter(row["workload"] for row in rows) == {"case_0": 2, "case_1": 2, "published": 5}
    assert all(row["env_id"] is None and row["started_at"] is None for row in rows)
    assert json.loads((folder / "import.json").read_text())["rows"] == dict(report.rows)


def test_the_importers_problems_are_those_of_the_registry() -> None:
    for problem in PROBLEMS.values():
        assert known()[problem].family == FAMILY


def test_origin_is_recorded_and_the_licence_is_not_stated(imported: Imported) -> None:
    kernels = load(imported[0]).to_arrow()
    assert kernels.column("license").null_count == kernels.num_rows > 0
    assert all(
        origin.startswith("codezakh/gpu-forecasters-") and origin.endswith("@abc123")
        for origin in kernels.column("origin").to_pylist()
    )


def test_what_differs_from_the_announcement_is_said(imported: Imported) -> None:
    differences = "\n".join(imported[1].differences)
    assert "rows of eval-set: 424 announced, 7 found" in differences
    assert "kernels: 12,388 announced" in differences
    assert "GPUs: 3 announced, 2 found" in differences
    assert "search trimul__a" not in differences, "its summary agrees with its events"


@pytest.mark.parametrize(
    ("speedup", "number"),
    [(0.7071067811865476, 3), (1.41421356237, 4), (1.41421356238, 5), (0.5, 2), (4.0, 8), (0.3, 1)],
)
def test_trap_1_bins_are_recomputed(run_import: Run, tmp_path: Path, speedup: float, number: int) -> None:
    row = eval_row(1, speedup)
    folder, _ = run_import(None, write(tmp_path / "e.parquet", [row]))
    assert load(folder, config="questions").to_arrow().column("bin").to_pylist() == [number] == [bins.bin_of(speedup)]


def test_trap_1_a_label_that_contradicts_its_speedup_is_a_bad_row(run_import: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "e.parquet", [eval_row(1, 1.2, true_bin=6)])
    with pytest.raises(
        DataError, match=r"e\.parquet, entry 1: true_bin is 6: contradicts the speedup 1\.2, .*bin is 4"
    ):
        run_import(None, path)


def test_trap_2_what_a_docstring_boasts_of_reaches_no_query(imported: Imported) -> None:
    corpus = Corpus.open(imported[0])
    assert any("3.7x" in source for source in corpus.table("kernels").column("source").to_pylist())
    for query in build_questions(benchmark_of(corpus, EVERY_GPU), "test", ["forecast"]).queries:
        assert "3.7x" not in query.anchor_source + query.candidate_source + query.problem_text


def test_trap_2_binfiller_and_harvested_candidates_are_told_apart(imported: Imported) -> None:
    questions = load(imported[0], config="questions", split="test").to_arrow()
    kernels = load(imported[0]).to_arrow()
    writers = dict(zip(*(kernels.column(name).to_pylist() for name in ("kernel_id", "proposer")), strict=True))
    found = Counter(writers[key] == "binfiller" for key in questions.column("candidate_id").to_pylist())
    assert found == {False: 6, True: 1}


def test_trap_3_rows_that_share_a_comparison_id_keep_their_own_forecasts(imported: Imported) -> None:
    folder, _ = imported
    pairs = {row["question_id"]: row for row in load(folder, config="questions", split="test").to_arrow().to_pylist()}
    assert len(pairs) == 7
    answers: dict[float, int] = {}
    for row in pq.read_table(folder / "forecasts" / "gemini3_flash.parquet").to_pylist():
        if row["repeat"] == 0 and row["probabilities"]:
            likely = 1 + max(range(8), key=lambda index: row["probabilities"][index])
            answers[pairs[row["query_id"]]["speedup"]] = likely
    assert {speedup: answers[speedup] for speedup in (1.2, 1.7, 1.25)} == {1.2: 4, 1.7: 5, 1.25: 6}


def test_trap_5_sums_are_normalised_and_kept_and_all_zero_is_a_failure(imported: Imported) -> None:
    folder, report = imported
    rows = pq.read_table(folder / "forecasts" / "gemini3_flash.parquet").to_pylist()
    assert len(rows) == 21
    answered = [row for row in rows if row["probabilities"]]
    assert all(sum(row["probabilities"]) == pytest.approx(1) for row in answered)
    assert {round(row["raw_sum"], 2) for row in answered} == {0.15, 1.45, 1.0}
    failures = Counter(row["failure"] for row in rows if row["failure"])
    assert failures == {
        "all probabilities are zero": 3,
        "no probability was given": 2,
        "the answer could not be parsed; no more is stated": 1,
    }
    assert any("predicted_bin is not their most probable" in note for note in report.notes)


def test_trap_6_a_null_typed_parse_error_reads_like_any_other(imported: Imported) -> None:
    folder, report = imported
    one, other = (pq.read_table(folder / "forecasts" / f"{name}.parquet") for name in ("gemini3_flash", "deepseek_v4"))
    assert one.schema.equals(other.schema)
    assert sorted(set(other.column("repeat").to_pylist())) == [0, 1, 2], "repeats from 1 are renumbered"
    assert any("deepseek_v4 are numbered from 1" in note for note in report.notes)


def test_events_of_version_2_become_kernels_with_lineage_and_verdicts(imported: Imported) -> None:
    rows = load(imported[0], where="run_id == 'trimul_a'").to_arrow().to_pylist()
    by_status = Counter(row["status"] for row in rows)
    assert by_status == {"ok": 2, "compile_error": 1, "incorrect": 1, "out_of_memory": 1, None: 1}
    seed = next(row for row in rows if row["proposer"] == "seed")
    assert all(row["parent_id"] == seed["kernel_id"] for row in rows if row is not seed)
    assert {row["search_method"] for row in rows} == {"puct"}
    assert {row["gpu"] for row in rows} == {"NVIDIA A100-SXM4-80GB"}, "the search's pairs name its GPU"
    fast = next(row for row in rows if row["status"] == "ok" and row is not seed)
    assert fast["speedup"] == pytest.approx(1.0)
    assert fast["runtime_us"] == pytest.approx(1000.0), "nanoseconds of two cases, geometric mean"
    assert fast["split"] == "test", "the evaluation set asks about it"


def test_events_of_version_3_read_milliseconds_and_keep_what_was_dropped_as_unmeasured(imported: Imported) -> None:
    rows = load(imported[0], where="run_id == 'conv_chain_b'").to_arrow().to_pylist()
    fast = next(row for row in rows if row["proposer"] == "llm" and row["status"] == "ok")
    assert fast["runtime_us"] == pytest.approx(250.0), "the release's runtime_us holds milliseconds"
    assert fast["step"] == 3
    assert fast["search_method"] == "puct+surrogate"
    assert [row["runtime_us"] for row in rows if row["status"] is None] == [None]


def test_a_search_can_be_replayed_from_the_imported_measurements(imported: Imported) -> None:
    executor = open_recording(imported[0])
    rows = load(imported[0], where="run_id == 'trimul_a'").to_arrow().to_pylist()
    executor.submit([KernelSource(row["problem_id"], Backend(row["backend"]), row["source"]) for row in rows])
    results = executor.collect(1.0)
    assert sum(bool(result.measurements) for result in results) == sum(row["status"] is not None for row in rows) == 5
    for result in results:
        if result.measurements:
            outcome = outcome_of(result.measurements)
            assert (outcome.status == "ok") == (outcome.speedup is not None)


def test_a_bad_row_is_named_or_passed_over(run_import: Run, tmp_path: Path) -> None:
    rows = [eval_row(1, 1.2), eval_row(2, -1.0, true_bin=1), eval_row(3, 1.2, hardware=None)]
    path = write(tmp_path / "e.parquet", rows)
    with pytest.raises(DataError, match=r"entry 2: aggregated_speedup is -1\.0: must be a positive number"):
        run_import("gpu-forecasters", path)
    assert not (tmp_path / "out").exists(), "nothing is left of an import that stopped"
    folder, report = run_import("gpu-forecasters", path, on_bad_rows="skip")
    assert [(row.row, row.field) for row in report.bad] == [("2", "aggregated_speedup"), ("3", "hardware")]
    assert load(folder, config="questions").count() == 1


def test_a_changed_schema_is_one_line(run_import: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "e.parquet", [{"comparison_id": "c", "pack": "trimul"}])
    with pytest.raises(DataError, match=r"lacks the column 'source_search' of dataset 'eval-set'; the schema"):
        run_import("gpu-forecasters", path)


def test_a_forecast_that_answers_nothing_is_a_bad_row(run_import: Run, tmp_path: Path) -> None:
    pairs = write(tmp_path / "e.parquet", [eval_row(1, 1.2)])
    rows = [prediction(1, "m", 0, {4: 1.0}), prediction(1, "m", 0, {4: 1.0})]
    answers = write(tmp_path / "p.parquet", rows, PREDICTIONS)
    with pytest.raises(DataError, match="occurs more often than in the evaluation set"):
        run_import("gpu-forecasters", answers, pairs)
