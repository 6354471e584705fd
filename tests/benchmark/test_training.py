"""Training exports: rows equal what the corpus holds, and no split ever reaches another's file."""

import itertools
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kbench
from kbench.benchmark.llm.extract import extract
from kbench.benchmark.questions.asked import Tables
from kbench.benchmark.questions.build import training_pairs
from kbench.benchmark.rewards import kernel_score
from kbench.benchmark.surrogates.llm import render
from kbench.benchmark.training.examples import Material, search_steps
from kbench.benchmark.training.formats import FORMATS
from kbench.cli import cli
from kbench.loaders.corpus.corpus import Corpus
from kbench.schemas import QuestionKind, UserError, to_dict

Rows = list[dict[str, Any]]
ROOT = Path(__file__).parents[2]
EVERY = [*FORMATS, "write"]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["data", "export", *map(str, arguments)])


def exported(folder: Path, corpus: Path, form: str, *options: object) -> Rows:
    out = folder / f"{form}.jsonl"
    chosen = ("trl-prompt", "--task", "write") if form == "write" else (form,)
    result = run(corpus, "--format", *chosen, "--out", out, *options, "--json")
    assert result.exit_code == 0, result.exception
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert json.loads(result.stdout) == {"rows": len(rows), "path": str(out)}
    return rows


def kernels(corpus: Tables, **filters: Any) -> dict[str, dict[str, Any]]:
    return {row["kernel_id"]: row for row in corpus.table("kernels", **filters).to_pylist()}


def code(messages: Rows) -> str:
    assert [message["role"] for message in messages] == ["assistant"]
    return extract(messages[0]["content"], 1)


def shown(row: dict[str, Any]) -> str:
    return str(row["normalised"]).strip() + "\n"


def kernel_ids(row: dict[str, Any]) -> set[str]:
    found = {value for name, value in row.items() if name in ("kernel_id", "chosen_id", "rejected_id")}
    return found | {one["kernel_id"] for one in row.get("candidates", ())}


def test_a_preference_is_a_pair_whose_intervals_do_not_touch(corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    known = kernels(corpus, split="train")
    stated = corpus.table("questions", split="train").to_pylist()
    pairs = {row["question_id"]: row for row in stated if row["anchor_id"] and row["workload"] is None}
    rows = exported(tmp_path, corpus_path, "trl-preference")
    for row in rows:
        chosen, rejected, pair = known[row["chosen_id"]], known[row["rejected_id"]], pairs[row["question_id"]]
        assert (row["chosen_speedup"], row["rejected_speedup"]) == (chosen["speedup"], rejected["speedup"])
        assert chosen["runtime_high_us"] < rejected["runtime_low_us"]
        assert not pair["speedup_low"] <= 1 <= pair["speedup_high"]
        assert row["margin"] == abs(math.log2(pair["speedup"]))
        assert {row["chosen_id"], row["rejected_id"]} == {pair["anchor_id"], pair["candidate_id"]}
        assert (code(row["chosen"]), code(row["rejected"])) == (shown(chosen), shown(rejected))
    apart = [
        pair["question_id"]
        for pair in pairs.values()
        for one, other in [(known[pair["anchor_id"]], known[pair["candidate_id"]])]
        if one["runtime_low_us"] > other["runtime_high_us"] or other["runtime_low_us"] > one["runtime_high_us"]
    ]
    assert [row["question_id"] for row in rows] == apart
    assert 0 < len(apart) < len(pairs)


def test_forecast_prompts_are_the_questions_of_an_evaluation(corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    rows = exported(tmp_path, corpus_path, "trl-prompt")
    asked = sorted(training_pairs(corpus, ["train"]), key=lambda pair: pair[0].query_id)
    rows = [row for row in rows if row["workload"] is None]
    assert [row["prompt"][1]["content"] for row in rows] == [render(query) for query, _ in asked]
    assert [row["question_id"] for row in rows] == [question.question_id for _, question in asked]
    assert [row["kind"] for row in rows] == [question.kind for _, question in asked]
    assert {row["kind"] for row in rows} == set(QuestionKind)
    for name in ("speedup", "speedup_low", "speedup_high", "bin"):
        assert [row[name] for row in rows] == [getattr(question, name) for _, question in asked]


def test_write_prompts_are_one_for_each_problem(corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    rows = exported(tmp_path, corpus_path, "write")
    found = kernels(corpus, split="train").values()
    assert sorted(row["problem_id"] for row in rows) == sorted({row["problem_id"] for row in found})
    problems = {row["problem_id"]: row["prompt"].strip() for row in corpus.table("problems").to_pylist()}
    for row in rows:
        assert problems[row["problem_id"]] in row["prompt"][1]["content"]
        speedups = [one["speedup"] for one in found if one["problem_id"] == row["problem_id"] and one["speedup"]]
        assert row["best_speedup"] == max(speedups)


def test_the_first_prompts_are_a_sample_of_all_problems() -> None:
    rows = list(itertools.islice(kbench.training_rows("trl-prompt", "test", subset="core"), 40))
    assert len({row.problem_id for row in rows}) > 15
    writing = [row.problem_id for row in kbench.training_rows("trl-prompt", "test", task="write")]
    assert writing != sorted(writing)
    assert len(set(writing[:20])) > 10


@pytest.mark.parametrize(("split", "warned"), [("test", True), ("train", False), ("validation", False)])
def test_an_export_of_a_test_split_says_so(corpus_path: Path, tmp_path: Path, split: str, warned: bool) -> None:
    result = run(corpus_path, "--format", "sft", "--split", split, "--out", tmp_path / "x.jsonl")
    assert result.exit_code == 0
    assert ("is what the benchmark asks" in result.stderr) is warned


def test_demonstrations_are_the_best_kernels_in_order(corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    known = kernels(corpus, split="train")
    rows = exported(tmp_path, corpus_path, "sft", "--best", 3)
    for problem in {row["problem_id"] for row in known.values()}:
        mine = [row for row in known.values() if row["problem_id"] == problem and row["speedup"]]
        best = sorted(mine, key=lambda row: row["runtime_us"])[:3]
        taken = [row for row in rows if row["problem_id"] == problem]
        assert [row["kernel_id"] for row in taken] == [row["kernel_id"] for row in best]
        assert [row["rank"] for row in taken] == [1, 2, 3]
        assert [code(row["completion"]) for row in taken] == [shown(row) for row in best]


def test_scored_kernels_are_all_measured_ones_failures_last(corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    known = kernels(corpus, split="train")
    rows = exported(tmp_path, corpus_path, "reward")
    assert {row["kernel_id"] for row in rows} == set(known)
    for row in rows:
        kernel = known[row["kernel_id"]]
        assert (row["status"], row["speedup"]) == (kernel["status"], kernel["speedup"])
        assert row["score"] == kernel_score(kernel["status"], kernel["speedup"])
        assert code(row["completion"]) == shown(kernel)
    failed = {row["score"] for row in rows if row["status"] != "ok"}
    assert failed
    assert max(failed) < min(row["score"] for row in rows if row["status"] == "ok")


def test_a_trajectory_tells_parents_diffs_and_outcomes_of_the_shipped_searches() -> None:
    shipped = Corpus.open()
    problem = shipped.table("kernels", split="train", columns=["problem_id"]).column("problem_id")[0].as_py()
    material = Material(shipped, "train", {"problem": problem})
    steps = list(search_steps(material))
    found = [one for step in steps for one in step.candidates]
    gpu = "NVIDIA H200"
    assert sorted(one.kernel_id for one in found) == sorted(key for key, place in material.kernels if place == gpu)
    edited = [one for one in found if one.diff is not None]
    assert edited
    for one in edited:
        row, parent = material.kernels[one.kernel_id, gpu], material.kernels[one.parent_ids[0], gpu]
        assert one.parent_ids[0] == row["parent_id"]
        assert (one.speedup, one.parent_speedup) == (row["speedup"], parent["speedup"])
        assert one.operator in ("mutate", "cross", "repair")
        lines = (one.diff or "").splitlines()[2:]
        assert {line[1:] for line in lines if line.startswith("+")} <= set(material.source(row).splitlines())
        assert {line[1:] for line in lines if line.startswith("-")} <= set(material.source(parent).splitlines())
    assert {one.operator for one in found if not one.parent_ids} == {"fresh"}
    for step in steps:
        reached = [one.speedup for one in step.candidates if one.speedup] + [step.best_before or 0.0]
        assert (step.best_after or 0.0) == max(reached)


@pytest.mark.parametrize("form", EVERY)
def test_a_train_export_has_nothing_held_out(form: str, corpus: Tables, corpus_path: Path, tmp_path: Path) -> None:
    held_out = kernels(corpus, split=["validation", "test"])
    problems = {row["problem_id"] for row in held_out.values()}
    rows = exported(tmp_path, corpus_path, form)
    assert rows
    for row in rows:
        assert row["split"] == "train"
        assert row["problem_id"] not in problems
        assert not kernel_ids(row) & set(held_out)
    tested = exported(tmp_path, corpus_path, form, "--split", "test")
    assert {row["split"] for row in tested} == {"test"}
    assert not {row["problem_id"] for row in tested} & {row["problem_id"] for row in rows}


@pytest.mark.parametrize("form", EVERY)
def test_exports_repeat_and_show_no_comment(form: str, corpus_path: Path, tmp_path: Path, secret: str) -> None:
    exported(tmp_path, corpus_path, form)
    first = (tmp_path / f"{form}.jsonl").read_bytes()
    exported(tmp_path, corpus_path, form)
    assert (tmp_path / f"{form}.jsonl").read_bytes() == first
    assert secret.encode() not in first


def test_comments_are_kept_when_asked_for(corpus_path: Path, tmp_path: Path, secret: str) -> None:
    rows = exported(tmp_path, corpus_path, "sft", "--comments")
    assert all(secret in row["completion"][0]["content"] for row in rows)


def test_a_notebook_has_the_pairs_that_fit_gets(corpus_path: Path, corpus: Tables) -> None:
    assert kbench.training_pairs(path=corpus_path) == list(training_pairs(corpus, ["train"]))
    with pytest.raises(UserError, match="kept for testing"):
        kbench.training_pairs("test", path=corpus_path)


@pytest.mark.parametrize("form", ["write", "sft"])
def test_python_gives_the_rows_of_the_command(form: str, corpus_path: Path, tmp_path: Path) -> None:
    chosen = {"form": "trl-prompt", "task": "write"} if form == "write" else {"form": form}
    rows = kbench.training_rows(**chosen, split="test", path=corpus_path)
    assert [to_dict(row) for row in rows] == exported(tmp_path, corpus_path, form, "--split", "test")
    with pytest.raises(UserError, match="did you mean"):
        kbench.training_rows("stf", path=corpus_path)


def test_parquet_holds_the_same_rows(corpus_path: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    out = tmp_path / "rows.parquet"
    assert run(corpus_path, "--format", "trajectories", "--out", out).exit_code == 0
    assert pq.read_table(out).to_pylist() == exported(tmp_path, corpus_path, "trajectories")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--split", "train", "--split", "test"), "takes one split"),
        (("--split", "all"), "takes one split"),
        (("--columns", "source"), "leave --config and --columns out"),
        (("--status", "timeout"), "no measured kernel that matches"),
        (("--comments",), "a question never shows comments"),
    ],
)
def test_a_wrong_export_is_refused(options: tuple[str, ...], message: str, corpus_path: Path, tmp_path: Path) -> None:
    result = run(corpus_path, "--format", "trl-prompt", "--out", tmp_path / "x.jsonl", *options)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert not (tmp_path / "x.jsonl").exists()


@pytest.mark.parametrize("name", ["x.txt", "x.csv", "x.jsonl.gz"])
def test_a_file_whose_name_promises_another_format_is_refused(name: str, corpus_path: Path, tmp_path: Path) -> None:
    result = run(corpus_path, "--format", "sft", "--out", tmp_path / name)
    assert isinstance(result.exception, UserError)
    assert "let the name end in .jsonl or .ndjson or .json or .parquet" in str(result.exception)
    assert not (tmp_path / name).exists()


@pytest.mark.train
def test_every_trl_trainer_takes_a_step_on_its_export(corpus_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tests/support/trl_one_step.py", str(corpus_path)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"format"')]
    names = [line["trainer"] for line in lines]
    assert names == ["RewardTrainer", "DPOTrainer", "SFTTrainer", "GRPOTrainer", "GRPOTrainer"]
    assert all(line["steps"] == 1 and math.isfinite(line["loss"]) for line in lines)
