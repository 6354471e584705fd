"""A season from its opening to its scores, and everything it refuses on the way."""

from __future__ import annotations

import dataclasses
import datetime
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from kbench.benchmark.problems.registry import known
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.cli import leaderboard
from kbench.leaderboard.season import (
    KERNELS,
    UNMEASURED,
    close_season,
    enter_season,
    fresh_kernels,
    proposed_kernels,
    read_season,
)
from kbench.leaderboard.submission.labels import read_labels, read_queries
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import DataError, Environment, Kernel, Measurement, Status, Trust, UserError
from kbench.schemas.ids import content_hash
from kbench.schemas.record import field_types

GPU = "NVIDIA H200"
COUNT = 12
DAY = datetime.timedelta(days=1)
SOURCE = """# as fast as {step} lions
import torch


def run(x):
    return {body}
"""


@pytest.fixture(scope="module")
def kernel_files(board_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Kernels of both test problems that no dataset holds."""
    folder = tmp_path_factory.mktemp("proposed")
    for problem in sorted(
        {row["problem_id"] for row in Corpus.open(board_corpus).table("kernels", split="test").to_pylist()}
    ):
        for step in range(COUNT // 2):
            source = SOURCE.format(step=step, body=" + ".join(["x"] * (step + 1)))
            (folder / f"{problem}__triton__{step}.py").write_text(source, "utf-8")
    return folder


@pytest.fixture(scope="module")
def opened(board_corpus: Path, kernel_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An open season, and beside it submissions for it."""
    seasons = tmp_path_factory.mktemp("seasons")
    made = run("open", seasons / "spring", kernel_files, dataset=board_corpus)
    assert made.exit_code == 0, made.output
    for name in ("prior", "length"):
        out = ("--out", seasons / name)
        made = run("forecast", seasons / "spring", "--surrogate", name, *out, dataset=board_corpus)
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
    environment = dict.fromkeys(field_types(Environment)) | {
        "env_id": content_hash("environment"), "gpu": GPU, "compute_capability": "9.0", "sm_count": 132,
        "memory_bytes": 141 * 10**9, "l2_bytes": 60 * 2**20, "shared_bytes_per_block": 232448, "driver": "580",
        "cuda": "13.0", "python": "3.12", "torch": "2.11", "triton": "3.6", "sandbox": "none", "kbench": "0.1.0",
    }  # fmt: skip
    kernels, measurements = [], []
    for at, row in enumerate(Corpus.open(folder / KERNELS).select("kernels").records()):
        assert isinstance(row, Kernel)
        failed, time = at % 4 == 3, 10.0 * len(row.source)
        timed: dict[str, Any] = dict.fromkeys(name for name in UNMEASURED if name[:3] in ("run", "spe"))
        if not failed:
            for name, value in (("runtime", time), ("speedup", 1000 / time)):
                end = "_us" if name == "runtime" else ""
                timed |= {f"{name}{end}": value, f"{name}_low{end}": value / 1.01, f"{name}_high{end}": value * 1.01}
        verdict = {"status": Status.INCORRECT if failed else Status.OK, "error": "wrong output" if failed else None}
        common = timed | verdict | {"gpu": GPU, "env_id": environment["env_id"], "compile_ms": 30.0}
        kernels.append(dataclasses.replace(row, **common))
        plain: dict[str, Any] = dict.fromkeys(field_types(Measurement))
        plain |= common | {
            "measurement_id": content_hash("m", row.kernel_id), "kernel_id": row.kernel_id, "workload": "w",
            "problem_id": row.problem_id, "started_at": began, "trust": Trust.PLAN,
        }  # fmt: skip
        measurements.append(Measurement(**plain | changes))
    with CorpusWriter(out) as writer:
        writer.append("environments", [Environment(**environment)])
        writer.append("kernels", kernels)
        writer.append("measurements", measurements)
    return out


def test_a_season_opens_takes_entries_and_closes_with_scores(seasons: Path, board_corpus: Path, tmp_path: Path) -> None:
    folder = seasons / "spring"
    for name in ("prior", "length"):
        entered = run("enter", folder, seasons / name, "--json")
        assert entered.exit_code == 0, entered.output
        assert len(json.loads(entered.output)["digest"]) == 64
    figures = measured(folder, tmp_path / "measured")
    closed = run("close", folder, "--measurements", figures, dataset=board_corpus)
    assert closed.exit_code == 0, closed.output
    assert re.search(r"Skill \S+ \(core \S+\)", closed.output), "core stands beside the whole"
    season = read_season(folder)
    assert season.closing is not None
    assert season.closing.refused == ()
    assert season.closing.measurements_fingerprint == Corpus.open(figures).fingerprint
    names = {path.name for path in (folder / "results").iterdir()}
    assert names == {f"{entry.entry_id}.json.gz" for entry in season.entries}
    labels = read_labels(folder / "labels.parquet")
    assert labels.dataset == season.fingerprint
    assert len(labels.pools) == COUNT
    assert labels.pools.valid.sum() == COUNT - COUNT // 4
    again = run("close", folder, "--measurements", figures, dataset=board_corpus)
    assert "closed on" in str(again.exception)
    late = run("enter", folder, seasons / "prior")
    assert "enter the next one" in str(late.exception)


def test_queries_carry_no_label_and_no_comment(opened: Path) -> None:
    season = read_season(opened / "spring")
    files, facts = read_queries(opened / "spring" / "queries")
    assert facts["dataset"] == season.fingerprint
    assert season.kernels == COUNT
    assert {query.query_id for found in files.values() for query in found}.__len__() == season.queries
    assert all("lions" not in query.candidate_source for found in files.values() for query in found)
    rows = pq.read_table(opened / "spring" / "queries" / "forecast.parquet").to_pylist()
    assert not {"speedup", "runtime_us", "status", "bin", "kernel_id"} & rows[0].keys()
    kernels = Corpus.open(opened / "spring" / "kernels").table("kernels")
    assert kernels.column("status").null_count == kernels.column("speedup").null_count == COUNT
    assert not (opened / "spring" / "labels.parquet").exists()


def test_every_kernel_is_asked_about_once_against_another(opened: Path) -> None:
    """Who is an anchor is drawn from ids, so that it tells nothing."""
    files, _ = read_queries(opened / "spring" / "queries")
    compared = [query for query in files["forecast"] if query.kind != "reference"]
    for problem in {query.problem_id for query in compared}:
        ends = [text for q in compared if q.problem_id == problem for text in (q.anchor_source, q.candidate_source)]
        assert len(ends) == len(set(ends)) == COUNT // 2
    assert len(files["validity"]) == COUNT // 2


def test_an_entry_that_changed_or_never_entered_is_refused_and_the_others_are_scored(
    seasons: Path, board_corpus: Path, tmp_path: Path
) -> None:
    folder = seasons / "spring"
    ids = [
        json.loads(run("enter", folder, seasons / name, "--json").output)["entry_id"] for name in ("prior", "length")
    ]
    path = folder / "entries" / ids[0] / "submission.json"
    path.write_text(path.read_text("utf-8").replace('"source"', '"source+compiler"'), "utf-8")
    shutil.copytree(folder / "entries" / ids[1], folder / "entries" / "smuggled")
    figures = measured(folder, tmp_path / "measured")
    assert run("close", folder, "--measurements", figures, "--json", dataset=board_corpus).exit_code == 1
    closing = read_season(folder).closing
    assert closing is not None
    assert [f"{ids[0]}: its files changed" in closing.refused[0], "smuggled: never" in closing.refused[1]] == [True] * 2
    assert [found.name for found in (folder / "results").iterdir()] == [f"{ids[1]}.json.gz"]


def test_an_entry_made_after_measuring_began_is_refused(seasons: Path, board_corpus: Path, tmp_path: Path) -> None:
    folder, dataset = seasons / "spring", Corpus.open(board_corpus)
    opened = datetime.datetime.fromisoformat(read_season(folder).opened_at)
    enter_season(folder, seasons / "prior", opened + 2 * DAY)
    figures = Corpus.open(measured(folder, tmp_path / "measured", opened + DAY))
    season, results = close_season(folder, figures, dataset, opened + 3 * DAY, BootstrapSettings(resamples=20))
    assert results == []
    assert season.closing is not None
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
    assert not (seasons / "spring" / "entries").exists()


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
    seasons: Path, board_corpus: Path, tmp_path: Path, changes: dict[str, Any], days: int, reason: str
) -> None:
    folder = seasons / "spring"
    opened = datetime.datetime.fromisoformat(read_season(folder).opened_at)
    figures = Corpus.open(measured(folder, tmp_path / "measured", opened + days * DAY, **changes))
    with pytest.raises(UserError, match=reason):
        close_season(folder, figures, Corpus.open(board_corpus), opened + 3 * DAY)
    assert read_season(folder).closing is None


def test_measurements_of_other_kernels_are_refused(seasons: Path, board_corpus: Path) -> None:
    with pytest.raises(UserError, match="were not measured on NVIDIA H200"):
        close_season(
            seasons / "spring",
            Corpus.open(board_corpus),
            Corpus.open(board_corpus),
            datetime.datetime.now(datetime.UTC),
        )


def test_changed_queries_are_noticed(seasons: Path) -> None:
    (seasons / "spring" / "queries" / "rank.parquet").unlink()
    with pytest.raises(DataError, match="changed after the season opened"):
        enter_season(seasons / "spring", seasons / "prior", datetime.datetime.now(datetime.UTC))


def test_kernels_of_the_dataset_are_refused_by_id_by_structure_and_by_problem(
    board_corpus: Path, kernel_files: Path
) -> None:
    dataset = Corpus.open(board_corpus)
    [stored, *_] = dataset.table("kernels", split="test").to_pylist()
    [trained, *_] = dataset.table("kernels", split="train").to_pylist()
    kernel = proposed_kernels(kernel_files, "human", "run")[0]
    assert known()[kernel.problem_id].family == kernel.family
    changes = (
        {"kernel_id": stored["kernel_id"]},
        {"structure_id": stored["structure_id"]},
        {"problem_id": trained["problem_id"]},
    )
    known_ones = [dataclasses.replace(kernel, **change) for change in changes]
    kept, left_out = fresh_kernels([kernel, kernel, *known_ones], dataset)
    assert kept == [kernel]
    reasons = [
        "is in the dataset",
        "is in the dataset but for names and literals",
        "solves a problem that the dataset trains on, or one near to those",
    ]
    assert [reason.split(" ", 4)[4] for reason in left_out] == reasons
    with pytest.raises(UserError, match="is in the dataset, for one"):
        fresh_kernels(known_ones, dataset)


def test_a_season_opens_from_a_corpus_of_unmeasured_kernels_alone(
    opened: Path, board_corpus: Path, tmp_path: Path
) -> None:
    kernels = opened / "spring" / "kernels"
    again = run("open", tmp_path / "again", kernels, "--json", dataset=board_corpus)
    assert json.loads(again.output)["fingerprint"] == read_season(opened / "spring").fingerprint
    refused = run("open", tmp_path / "third", board_corpus, dataset=board_corpus)
    assert "were measured" in str(refused.exception)
    assert not (tmp_path / "third").exists()
    twice = run("open", tmp_path / "again", kernels, dataset=board_corpus)
    assert "exists; choose another name" in str(twice.exception)


@pytest.mark.parametrize(
    "arguments", [("forecast", "--surrogate", "prior", "--out", "x"), ("close", "--measurements", "x")]
)
def test_a_season_that_is_not_there_is_refused_before_the_dataset_is_read(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Corpus, "open", None)
    command, *options = arguments
    assert "no season in" in str(run(command, "never", *options).exception)
    assert "lower-case letters" in str(run(command, "Never", *options).exception)
