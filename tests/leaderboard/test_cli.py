"""The commands as a submitter and a maintainer use them."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner, Result
from huggingface_hub import EvalResultEntry, parse_eval_result_entries
from submission_copy import submission_copy

from kbench.benchmark.questions import Questions
from kbench.benchmark.questions.draw import draw_questions
from kbench.leaderboard.cli import leaderboard
from kbench.leaderboard.scoring.results import Results, hub_rows
from kbench.leaderboard.submission.labels import KEY, read_labels
from kbench.loaders.card.card import EVAL_FACTS
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import Kernel, from_dict


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(leaderboard, [str(argument) for argument in arguments])


def test_check_lists_all_and_exits_with_one(submissions: dict[str, Path], board_corpus: Path, tmp_path: Path) -> None:
    wrong = {"license": "unknown: state the licence", "created_at": "yesterday", "repeats": 2}
    submission_copy(submissions["prior"], tmp_path, **wrong)
    outcome = _run("check", tmp_path, "--dataset", board_corpus, "--json")
    assert outcome.exit_code == 1
    report = json.loads(outcome.output)
    assert not report["ok"]
    assert {row["field"] for row in report["errors"]} == {"license", "created_at", "repeat", "rows"}
    assert all(row["file"] and row["value"] and row["message"] for row in report["errors"])
    text = _run("check", tmp_path, "--format-only")
    assert text.exit_code == 1
    assert "submission.json: license is" in text.output
    assert "only you know: state the licence" in text.output


def test_files_that_cannot_be_read_are_named_without_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbench.leaderboard.cli.load_questions", lambda *given: pytest.fail("the corpus is read"))
    (tmp_path / "submission.json").write_text("{")
    outcome = _run("check", tmp_path)
    assert outcome.exit_code == 1
    assert "submission.json: file is" in outcome.output
    assert "exactly one of forecasts" in outcome.output


def test_scores_equal_earlier_results(submissions: dict[str, Path], board_corpus: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    arguments = ("score", submissions["prior"].parent, "--dataset", board_corpus, "--resamples", 20)
    scored = _run(*arguments, "--out", results)
    assert scored.exit_code == 0, scored.output
    assert "Skill" in scored.output
    same = _run(*arguments, "--compare", results)
    assert same.exit_code == 0, same.output
    assert "3 entries score exactly what their results say" in same.stderr
    path = results / "prior-1-0-0.json"
    path.write_text(path.read_text("utf-8").replace('"answered_share":1.0', '"answered_share":0.9'), "utf-8")
    (results / "uniform-1-0-0.json").rename(results / "other.json")
    other = _run(*arguments, "--compare", results)
    assert other.exit_code == 1
    changed = [line.split()[1] for line in other.stderr.splitlines() if line.startswith("kbench: ")]
    assert changed == ["uniform-1-0-0.json", "other.json", "prior-1-0-0.json"]


def test_a_private_split_is_exported_answered_and_scored(
    submissions: dict[str, Path], board_corpus: Path, results: list[Results], questions: Questions, tmp_path: Path
) -> None:
    queries, labels = tmp_path / "queries", tmp_path / "private.parquet"
    exported = _run("export-queries", queries, "--dataset", board_corpus, "--labels-out", labels, "--json")
    assert json.loads(exported.stdout)["queries"] == len(questions.queries)
    assert _run("check", submissions["prior"], "--labels", labels).exit_code == 0
    scored = _run("score", submissions["prior"], "--labels", labels, "--resamples", 50, "--json")
    (prior,) = [result for result in results if result.submission.name == "prior"]
    assert json.loads(scored.stdout)[0]["scores"] == prior.to_json()["scores"]
    site = ("--out", tmp_path / "site", "--cache", tmp_path / "cache", "--json")
    built = _run("build", "--labels", labels, "--submissions", submissions["prior"], *site)
    assert json.loads(built.stdout)["entries"] == 1, built.output
    assert not (tmp_path / "cache").exists(), "scores on private labels are not kept"


def test_questions_that_give_answers_away_are_named(board_corpus: Path, tmp_path: Path) -> None:
    """Here the candidate is always the faster kernel."""
    whole = Corpus.open(board_corpus)
    table = whole.table("questions")
    columns = (table.column(name).to_pylist() for name in ("kind", "speedup"))
    kept = [kind != "pair" or speedup > 1 for kind, speedup in zip(*columns, strict=True)]
    with CorpusWriter(tmp_path / "leaking") as writer:
        for name in ("problems", "kernels"):
            writer.append(name, whole.table(name))
        writer.append("questions", table.filter(pa.array(kept)))
    exported = _run("export-queries", tmp_path / "queries", "--dataset", tmp_path / "leaking", "--json")
    assert exported.exit_code == 1
    assert {one["feature"] for one in json.loads(exported.stdout)["leaks"]} >= {"side"}
    assert "these queries give answers away: " in exported.stderr


def test_query_files_name_the_gpu_they_ask_about_and_older_ones_still_read(board_corpus: Path, tmp_path: Path) -> None:
    whole = Corpus.open(board_corpus)
    kernels = [from_dict(Kernel, row) for row in whole.table("kernels").to_pylist()]
    with CorpusWriter(tmp_path / "two") as writer:
        writer.append("problems", whole.table("problems"))
        # The H200 has the most kernels, so it is asked about by default.
        every = [*kernels, *(dataclasses.replace(one, gpu="NVIDIA H100") for one in kernels[1:])]
        writer.append("kernels", every)
        writer.append("questions", draw_questions(every, []))
    corpus = ("--dataset", tmp_path / "two")
    for asked, name in (("h100", "NVIDIA H100"), ("all", "all")):
        labels = tmp_path / f"{asked}.parquet"
        said = _run("export-queries", tmp_path / asked, *corpus, "--gpu", asked, "--labels-out",
                    labels, "--json")  # fmt: skip
        tables = [pq.read_table(path) for path in (tmp_path / asked).glob("*.parquet")]
        gpus = {gpu for table in tables for gpu in table.column("gpu").to_pylist()}
        stated = {json.loads(table.schema.metadata[KEY])["gpu"] for table in tables}
        assert {json.loads(said.stdout)["gpu"]} == stated == {name}
        assert gpus == ({"NVIDIA H100", "NVIDIA H200"} if asked == "all" else {name})
        assert read_labels(labels).gpu == (None if asked == "all" else name)


def test_results_for_the_hub_are_read_by_its_own_library(results: list[Results]) -> None:
    entries = parse_eval_result_entries(hub_rows(results[0], "owner/kbench"))
    assert {type(entry) for entry in entries} == {EvalResultEntry}
    assert {entry.task_id for entry in entries} == {"forecast", "edit", "rank", "select"}
    assert all(entry.dataset_id == "owner/kbench" and isinstance(entry.value, float) for entry in entries)


def test_the_hub_s_tasks_name_configs_and_splits_that_exist(board_corpus: Path) -> None:
    facts = yaml.safe_load((board_corpus / "eval.yaml").read_text("utf-8"))
    assert facts == EVAL_FACTS
    for task in facts["tasks"]:
        assert list((board_corpus / task["config"]).glob(f"{task['split']}-*.parquet"))


def test_serve_answers_on_this_machine_alone_and_stops_on_interrupt(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>here", "utf-8")
    command = [sys.executable, "-m", "kbench", "leaderboard", "serve", str(tmp_path), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        address = server.stdout.readline().split()[0]
        try:
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(address, timeout=10) as answer:
                assert answer.read() == b"<!doctype html>here"
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(address + "../../../etc/hostname", timeout=10)
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("check", "/nope"), "'/nope' does not exist"),
        (("score", "/nope"), "'/nope' does not exist"),
        (("check", "/", "--labels", "/nope"), "'/nope' does not exist"),
        (("check", "/", "--split", "tset"), "did you mean 'test'"),
        (("build", "--out", "site", "--submissions", "/nope"), "'/nope' does not exist"),
        (("export-queries", "out", "--split", "tset"), "did you mean 'test'"),
        (("score", "/", "--compare", "/nope"), "'/nope' does not exist"),
    ],
)
def test_a_wrong_path_or_name_is_refused_before_anything_is_read(
    arguments: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Corpus, "open", None)
    outcome = _run(*arguments)
    assert reason in outcome.output + str(outcome.exception)


def test_every_command_says_in_one_line_what_it_is_for() -> None:
    text = _run("--help").output
    assert "..." not in text.split("Commands:")[1]
    for name, command in leaderboard.commands.items():
        assert name in text
        assert any("--json" in option.opts for option in command.params), name
