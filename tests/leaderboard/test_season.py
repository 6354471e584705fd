"""A season from its opening to its scores, and everything it refuses on the way."""

import dataclasses
import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from beside import module_at
from click.testing import CliRunner, Result
from records import filled

from kbench.benchmark.problems.registry import known
from kbench.benchmark.questions.answers import UNMEASURED
from kbench.benchmark.questions.corpus_view import CorpusView
from kbench.benchmark.questions.draw import draw_questions
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.cli import leaderboard
from kbench.leaderboard.season import close_season, enter_season, proposed_kernels
from kbench.leaderboard.season_record import (
    EDITION,
    LOOK_UP,
    packed_entries,
    read_entry_files,
    read_season,
    season_scores,
)
from kbench.leaderboard.season_rules import check_rules, public_kernels
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import DataError, Environment, Measurement, Status, Trust, UserError
from kbench.schemas.ids import content_hash

GPU = "NVIDIA H200"
COUNT = 24
DAY = datetime.timedelta(days=1)
SOURCE = """# as fast as {step} lions
import torch


def run(x):
    return {body}
"""


def write_dataset(path: Path) -> Path:
    """A dataset that states its questions."""
    corpora = module_at(Path(__file__).parents[1] / "benchmark" / "conftest.py")
    built = corpora.Builder(0, 6, 12)
    tables = {"problems": built.problems, "environments": [corpora.ENVIRONMENT], "kernels": built.kernels}
    return corpora.written(path, tables | {"questions": draw_questions(built.kernels, [])})


def propose(folder: Path) -> Path:
    """Kernels of two problems that the dataset does not hold."""
    folder.mkdir(parents=True)
    for problem in list(known())[6:8]:
        for step in range(COUNT // 2):
            source = SOURCE.format(step=step, body=" + ".join(["x"] * (step + 1)))
            (folder / f"{problem}__triton__{step}.py").write_text(source, "utf-8")
    return folder


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "corpus")


@pytest.fixture(scope="module")
def kernel_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return propose(tmp_path_factory.mktemp("kernels") / "proposed")


@pytest.fixture(scope="module")
def opened(dataset: Path, kernel_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An open season, and beside it submissions for it."""
    seasons = tmp_path_factory.mktemp("seasons")
    made = run("open", seasons / "spring", kernel_files, dataset=dataset)
    assert made.exit_code == 0, made.output
    for name in ("prior", "length"):
        out = ("--out", seasons / name)
        made = run("forecast", seasons / "spring", "--surrogate", name, *out, dataset=dataset)
        assert made.exit_code == 0, made.output
    return seasons


@pytest.fixture
def seasons(opened: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(opened, tmp_path / "seasons"))


def run(*arguments: object, dataset: Path | None = None) -> Result:
    given = [*arguments, *(() if dataset is None else ("--dataset", dataset))]
    return CliRunner().invoke(leaderboard, ["season", *map(str, given)])


def measured(folder: Path, out: Path, started: datetime.datetime | None = None, **changes: Any) -> Path:
    """Measurements of a season's kernels, invented: longer sources are slower, and every fourth kernel fails."""
    began = (started or datetime.datetime.now(datetime.UTC)).isoformat()
    environment = filled(Environment, env_id=content_hash("environment"), gpu=GPU, sm_count=132)
    kernels, measurements = [], []
    for at, row in enumerate(Corpus.open(folder / EDITION).select("kernels").records()):
        failed, time = at % 4 == 3, 10.0 * len(row.source)
        timed: dict[str, Any] = dict.fromkeys(name for name in UNMEASURED if name[:3] in ("run", "spe"))
        if not failed:
            for name, value in (("runtime", time), ("speedup", 1000 / time)):
                end = "_us" if name == "runtime" else ""
                timed |= {f"{name}{end}": value, f"{name}_low{end}": value / 1.01, f"{name}_high{end}": value * 1.01}
        verdict = {"status": Status.INCORRECT if failed else Status.OK, "error": "wrong output" if failed else None}
        common = timed | verdict | {"gpu": GPU, "env_id": environment.env_id, "compile_ms": 30.0}
        kernels.append(dataclasses.replace(row, **common))
        plain = {"measurement_id": content_hash("m", row.kernel_id), "workload": "w", "started_at": began}
        own = plain | {"trust": Trust.PLAN, "samples_us": None, "anchor_us": None} | changes
        measurements.append(filled(Measurement, like=kernels[-1], **own))
    with CorpusWriter(out) as writer:
        writer.append("environments", [environment])
        writer.append("kernels", kernels)
        writer.append("measurements", measurements)
    return out


def test_a_season_opens_takes_entries_and_closes_with_scores(seasons: Path, dataset: Path, tmp_path: Path) -> None:
    folder = seasons / "spring"
    for name in ("prior", "length"):
        entered = run("enter", folder, seasons / name, "--json")
        assert entered.exit_code == 0, entered.output
        assert len(json.loads(entered.output)["digest"]) == 64
    figures = measured(folder, tmp_path / "measured")
    closed = run("close", folder, "--measurements", figures, dataset=dataset)
    assert closed.exit_code == 0, closed.output
    season = read_season(folder)
    assert season.closing.refused == ()
    assert season.closing.measurements_fingerprint == Corpus.open(figures).fingerprint
    scores = season_scores(folder)
    assert set(scores) == {*(entry.entry_id for entry in season.entries), LOOK_UP}
    assert {one.track for one in scores[LOOK_UP]} == {"forecast", "edit", "rank", "select", "overall"}
    again = run("close", folder, "--measurements", figures, dataset=dataset)
    assert "closed on" in str(again.exception)
    late = run("enter", folder, seasons / "prior")
    assert "enter the next one" in str(late.exception)


def test_answers_are_measured_and_failed_kernels_have_none(seasons: Path, dataset: Path, tmp_path: Path) -> None:
    folder = seasons / "spring"
    figures = Corpus.open(measured(folder, tmp_path / "measured"))
    close_season(folder, figures, CorpusView(Corpus.open(dataset)), datetime.datetime.now(datetime.UTC))
    times = {row["kernel_id"]: row for row in figures.table("kernels").to_pylist()}
    answers = pq.read_table(folder / "answers.parquet").to_pylist()
    asked = {row["question_id"]: row for row in Corpus.open(folder / EDITION).table("questions").to_pylist()}
    assert {row["question_id"] for row in answers} == set(asked)
    for row in answers:
        ends = [times[key] for name in ("anchor_id", "candidate_id") if (key := asked[row["question_id"]][name])]
        expected = ends[0]["speedup"] if len(ends) == 1 else None
        if len(ends) == 2 and all(one["runtime_us"] for one in ends):
            expected = ends[0]["runtime_us"] / ends[1]["runtime_us"]
        assert row["speedup"] == (None if expected is None else pytest.approx(expected))


def test_an_open_season_states_no_figure_and_its_questions_show_no_comment(opened: Path) -> None:
    season, edition = read_season(opened / "spring"), Corpus.open(opened / "spring" / EDITION)
    kernels, questions = edition.table("kernels"), edition.table("questions")
    assert (kernels.num_rows, questions.num_rows) == (season.kernels, season.queries)
    assert season.fingerprint == edition.fingerprint
    assert kernels.column("status").null_count == kernels.column("speedup").null_count == COUNT
    assert questions.column("speedup").null_count == questions.column("bin").null_count == season.queries
    assert not any("lions" in text for text in kernels.column("normalised").to_pylist())
    assert set(questions.column("kind").to_pylist()) == {"pair", "level"}
    assert not (opened / "spring" / "answers.parquet").exists()


def test_an_entry_that_changed_is_refused_and_others_scored(seasons: Path, dataset: Path, tmp_path: Path) -> None:
    folder = seasons / "spring"
    ids = [
        json.loads(run("enter", folder, seasons / name, "--json").output)["entry_id"] for name in ("prior", "length")
    ]
    files = read_entry_files(folder)
    text = files[ids[0]]["submission.json"]
    files[ids[0]]["submission.json"] = text.replace(b'"source"', b'"source+compiler"')
    (folder / "entries.parquet").write_bytes(packed_entries(files | {"smuggled": files[ids[1]]}))
    figures = measured(folder, tmp_path / "measured")
    assert run("close", folder, "--measurements", figures, "--json", dataset=dataset).exit_code == 1
    closing = read_season(folder).closing
    assert [f"{ids[0]}: its files changed" in closing.refused[0], "smuggled: never" in closing.refused[1]] == [True] * 2
    assert set(season_scores(folder)) == {ids[1], LOOK_UP}


def test_an_entry_made_after_measuring_began_is_refused(seasons: Path, dataset: Path, tmp_path: Path) -> None:
    folder, public = seasons / "spring", CorpusView(Corpus.open(dataset))
    opened = datetime.datetime.fromisoformat(read_season(folder).opened_at)
    enter_season(folder, seasons / "prior", opened + 2 * DAY)
    figures = Corpus.open(measured(folder, tmp_path / "measured", opened + DAY))
    season, results = close_season(folder, figures, public, opened + 3 * DAY, BootstrapSettings(resamples=20))
    assert results == []
    assert "after measuring began" in season.closing.refused[0]


def test_a_name_enters_once(seasons: Path) -> None:
    folder = seasons / "spring"
    assert run("enter", folder, seasons / "prior").exit_code == 0
    assert "entered unchanged" in str(run("enter", folder, seasons / "prior").exception)
    path = seasons / "prior" / "submission.json"
    path.write_text(path.read_text("utf-8").replace('"source"', '"source+compiler"'), "utf-8")
    assert "with other files" in str(run("enter", folder, seasons / "prior").exception)
    assert len(read_season(folder).entries) == 1


def test_forecasts_of_another_dataset_cannot_enter(seasons: Path, submissions: dict[str, Path]) -> None:
    outcome = run("enter", seasons / "spring", submissions["prior"])
    assert isinstance(outcome.exception, UserError)
    assert "\n" not in str(outcome.exception)
    assert not (seasons / "spring" / "entries.parquet").exists()


@pytest.mark.parametrize(
    ("changes", "days", "reason"),
    [
        ({}, -1, "before the season opened"),
        ({}, 4, "set the clocks right"),
        ({"trust": Trust.PROCESS}, 1, "plans alone"),
        ({"started_at": None}, 1, "no dated measurement"),
    ],
)
def test_measurements_that_prove_nothing_are_refused(
    seasons: Path, dataset: Path, tmp_path: Path, changes: dict[str, Any], days: int, reason: str
) -> None:
    folder = seasons / "spring"
    opened = datetime.datetime.fromisoformat(read_season(folder).opened_at)
    figures = Corpus.open(measured(folder, tmp_path / "measured", opened + days * DAY, **changes))
    with pytest.raises(UserError, match=reason):
        close_season(folder, figures, CorpusView(Corpus.open(dataset)), opened + 3 * DAY)
    assert read_season(folder).closing is None


def test_measurements_of_other_kernels_are_refused(seasons: Path, dataset: Path) -> None:
    public = Corpus.open(dataset)
    with pytest.raises(UserError, match="were not measured on NVIDIA H200"):
        close_season(seasons / "spring", public, CorpusView(public), datetime.datetime.now(datetime.UTC))


def test_a_changed_edition_is_noticed(seasons: Path) -> None:
    record = seasons / "spring" / "season.json"
    facts = json.loads(record.read_text("utf-8"))
    record.write_text(json.dumps(facts | {"fingerprint": content_hash("another")}), "utf-8")
    with pytest.raises(DataError, match="changed after the season opened"):
        enter_season(seasons / "spring", seasons / "prior", datetime.datetime.now(datetime.UTC))


@pytest.mark.parametrize(
    ("same", "split", "reason"),
    [
        (("kernel_id",), "test", "is public: "),
        (("structure_id",), "test", "is equal but for names and numbers to "),
        (("parent_id",), "test", "was made from "),
        (("source",), "test", "is 1.00 similar to "),
        (("problem_id",), "train", "which the dataset trains on or near"),
        ((), "test", ""),
    ],
)
def test_a_kernel_with_a_public_relative_is_refused_by_its_name(
    dataset: Path, kernel_files: Path, tmp_path: Path, same: tuple[str, ...], split: str, reason: str
) -> None:
    corpus = CorpusView(Corpus.open(dataset))
    public = public_kernels(corpus, tmp_path)
    [stored, *_] = corpus.table("kernels", split=split).to_pylist()
    first, *others = proposed_kernels(kernel_files, "human", "run")
    changed = {name: stored["kernel_id" if name == "parent_id" else name] for name in same}
    kernels = [dataclasses.replace(first, **changed), *others]
    if not reason:
        check_rules(kernels, corpus, public)
        return
    with pytest.raises(UserError, match=reason) as refused:
        check_rules(kernels, corpus, public)
    # The same text is another kernel's too, of another problem.
    if split == "test" and "source" not in same:
        assert f"{stored['kernel_id']} (config kernels of {stored['problem_id']}); 1 of {COUNT}" in str(refused.value)


def test_a_season_of_known_problems_is_refused(dataset: Path, kernel_files: Path, tmp_path: Path) -> None:
    corpus = CorpusView(Corpus.open(dataset))
    known_problem = corpus.table("kernels", split="test").column("problem_id")[0].as_py()
    kernels = proposed_kernels(kernel_files, "human", "run")
    half = [dataclasses.replace(one, problem_id=known_problem) for one in kernels[: COUNT // 2]]
    with pytest.raises(UserError, match=f"1 of 2 problems have public kernels, {known_problem} for one"):
        check_rules([*half, *kernels[COUNT // 2 :]], corpus, public_kernels(corpus, tmp_path))


def test_a_season_opens_from_a_corpus_of_unmeasured_kernels(opened: Path, dataset: Path, tmp_path: Path) -> None:
    kernels = opened / "spring" / EDITION
    again = run("open", tmp_path / "again", kernels, "--json", dataset=dataset)
    assert json.loads(again.output)["fingerprint"] == read_season(opened / "spring").fingerprint
    beside = run("open", opened / "autumn", kernels, dataset=dataset)
    assert "season spring of" in str(beside.exception), "kernels of an earlier season are public"
    refused = run("open", tmp_path / "third", dataset, dataset=dataset)
    assert "were measured" in str(refused.exception)
    assert not (tmp_path / "third").exists()
    twice = run("open", tmp_path / "again", kernels, dataset=dataset)
    assert "exists; choose another name" in str(twice.exception)


@pytest.mark.parametrize(
    "arguments", [("forecast", "--surrogate", "prior", "--out", "x"), ("close", "--measurements", "x")]
)
def test_a_season_that_is_not_there_is_refused(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Corpus, "open", None)
    command, *options = arguments
    assert "no season in" in str(run(command, "never", *options).exception)
    assert "lower-case letters" in str(run(command, "Never", *options).exception)


def test_arguments_of_the_surrogate_reach_it(seasons: Path, dataset: Path, tmp_path: Path) -> None:
    arguments = ("--surrogate", "llm", "--surrogate-arg", "model=m", "--out", tmp_path / "out")
    requests = tmp_path / "requests.jsonl"
    run("forecast", seasons / "spring", *arguments, "--surrogate-arg", f"requests_file={requests}", dataset=dataset)
    assert {json.loads(line)["body"]["model"] for line in requests.read_text().splitlines()} == {"m"}
