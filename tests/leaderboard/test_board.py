"""Which submissions a folder holds, and results as files: nothing goes unseen, and all is written or nothing."""

import dataclasses
import json
import os
import shutil
from pathlib import Path

import pytest
from submission_copy import submission_copy

from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard import board
from kbench.leaderboard.board import (
    check_all,
    expected_of,
    local_entries,
    read_entries,
    score_board,
    score_entries,
    submission_paths,
)
from kbench.leaderboard.scoring.results import Results, kept_between_builds, read_results, write_results
from kbench.leaderboard.site.page import entry_data
from kbench.schemas import DataError, UserError


def test_results_read_back_as_they_were_written(results: list[Results], tmp_path: Path) -> None:
    paths = write_results(results, tmp_path)
    assert [read_results(path).to_json() for path in paths] == [result.to_json() for result in results]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "length-1-0-0.json",
        "prior-1-0-0.json",
        "uniform-1-0-0.json",
    ]
    whole = paths[0].read_bytes()
    for damaged in (b'{"version": "0"}', b"{}", whole[:-20], whole[:40] + bytes(40) + whole[80:]):
        paths[0].write_bytes(damaged)
        with pytest.raises(DataError, match="score it again"):
            read_results(paths[0])


def test_slices_are_kept_apart(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    entries, settings = list(read_entries([submissions["prior"]], questions)), BootstrapSettings(resamples=10)
    scored: list[str] = []
    whole, full, *again = (
        score_entries(entries, questions, settings, scored.append, tmp_path, sliced)[0].scores
        for sliced in (False, True, False, True)
    )
    assert len(scored) == 2, "each of the two is scored once and then kept"
    assert again == [whole, full]
    assert {score.slice for score in whole} == {"all"} < {score.slice for score in full}
    assert list(whole) == [score for score in full if score.slice == "all"]


def test_an_entry_is_scored_again_on_change(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    def scored() -> list[str]:
        names: list[str] = []
        entries = read_entries([tmp_path / "entries"], questions)
        score_entries(entries, questions, BootstrapSettings(resamples=5), names.append, tmp_path / "cache")
        return names

    for name in ("length", "prior"):
        submission_copy(submissions[name], tmp_path / "entries" / name)
    assert scored() == ["length 1.0.0", "prior 1.0.0"]
    assert scored() == []
    submission_copy(submissions["prior"], tmp_path / "entries" / "prior", authors=["Ada"])
    assert scored() == [], "who made it decides no figure"
    stored = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "cache").iterdir()]
    assert ["Ada"] in [one["submission"]["authors"] for one in stored]
    submission_copy(submissions["prior"], tmp_path / "entries" / "prior", tracks=["forecast"])
    assert scored() == ["prior 1.0.0"]
    for path in (tmp_path / "cache").iterdir():
        path.write_text("{}", "utf-8")
    assert scored() == ["length 1.0.0", "prior 1.0.0"]


def test_what_a_build_makes_is_kept_until_it_depends_on_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KBENCH_CACHE", str(tmp_path / "own"))
    made: list[str] = []

    def value(key: str, code: str = "schemas") -> int:
        return kept_between_builds(True, "pages", (key,), (code,), lambda: made.append(key) or len(made))

    assert [value("a"), value("a"), value("b"), value("b", "loaders"), value("b", "loaders")] == [1, 1, 2, 3, 3]
    (file,) = (tmp_path / "own" / "leaderboard").iterdir()
    file.write_bytes(b"damaged")
    assert value("b", "loaders") == 4
    assert kept_between_builds(False, "pages", (), (), lambda: 7) == 7


def test_a_draft_in_the_folder_one_stands_in_is_on_the_board(
    submissions: dict[str, Path], questions: Questions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    monkeypatch.setattr(board, "SUBMISSIONS", tmp_path / "none")
    assert local_entries() == []
    draft = tmp_path / "leaderboard" / "submissions" / "mine"
    submission_copy(submissions["prior"], draft, hardware="unknown: state the hardware")
    assert local_entries() == [draft]
    refused: list[str] = []
    told: list[str] = []
    made = score_board(questions, None, None, tmp_path / "cache", told.append, refused.append)
    assert told == ["scoring prior 1.0.0"]
    assert ([result.entry_id for result in made.results], refused) == (["prior-1-0-0"], [])
    assert made.results[0].flags == ["its author has not stated hardware"]
    assert entry_data(made.results[0])["hardware"] == "not stated"
    assert board.entries_text(questions) == "0 shipped, 1 of yours: mine"
    shutil.copytree(draft, tmp_path / "none" / "test" / "prior")
    shutil.copytree(draft, draft.parent / "test" / "prior")
    assert board.entries_text(questions) == "1 shipped, 1 of yours: mine", "a clone's copy is no entry of one's own"
    (draft.parent / "test" / "prior" / "submission.json").write_text("{}", "utf-8")
    assert board.entries_text(questions) == "0 shipped, 2 of yours: prior, mine"
    with pytest.raises(UserError, match="only you know"):
        list(read_entries([draft], questions))


def test_an_entry_of_one_s_own_stands_where_its_evaluation_says_it_was_asked(
    submissions: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "leaderboard" / "submissions"
    asked = {"whole": (None, 0), "on-core": ("core", 0), "with-shots": ("core", 8), "odd": (["core"], 8)}
    for name, (subset, shots) in asked.items():
        submission_copy(submissions["prior"], folder / name)
        (folder / name / "results.json").write_text(json.dumps({"subset": subset, "shots": shots}), "utf-8")
    submission_copy(submissions["prior"], folder / "made-elsewhere")
    (folder / "made-elsewhere" / "results.json").unlink(missing_ok=True)
    assert [path.name for path in local_entries("core")] == ["on-core"]
    assert [path.name for path in local_entries("core-8-shots")] == ["with-shots"]
    assert [path.name for path in local_entries()] == ["made-elsewhere", "odd", "whole"]


def test_an_entry_on_a_part_is_told_so(submissions: dict[str, Path], questions: Questions, tmp_path: Path) -> None:
    expected = expected_of(questions)
    more = dataclasses.replace(expected, query_ids=[*expected.query_ids, "f" * 32])
    ((_, checked),) = check_all([submissions["prior"]], more)
    assert "--subset core [--shots 8]" in str(checked.flaws[0])
    other = dataclasses.replace(expected, query_ids=["f" * 32], elsewhere={"validation": expected.query_ids})
    ((_, checked),) = check_all([submissions["prior"]], other)
    assert "these answer split validation; entries answer test" in str(checked.flaws[0])
    assert len(checked.flaws) == 1


def test_entries_beside_one_join_the_shipped_ones_and_replace_those_of_their_name(
    submissions: dict[str, Path], questions: Questions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped_ones, local = tmp_path / "installed", tmp_path / "leaderboard" / "submissions"
    for name in ("prior", "length"):
        submission_copy(submissions[name], shipped_ones / "core" / name)
    monkeypatch.setattr(board, "SUBMISSIONS", shipped_ones)
    monkeypatch.chdir(tmp_path)
    core = dataclasses.replace(questions, subset="core")
    submission_copy(submissions["prior"], local / "core" / "mine", name="mine")
    assert board.shipped(core) == [
        shipped_ones / "core" / "length",
        local / "core" / "mine",
        shipped_ones / "core" / "prior",
    ]
    submission_copy(submissions["prior"], local / "core" / "prior", version="2")
    assert board.shipped(core)[-1] == local / "core" / "prior"
    (local / "core" / "mine" / "submission.json").write_text("{")
    assert local / "core" / "mine" in board.shipped(core), "the check says what is wrong with it"


def test_nothing_in_a_folder_of_submissions_goes_unseen(submissions: dict[str, Path], tmp_path: Path) -> None:
    misnamed = tmp_path / "misnamed"
    misnamed.mkdir()
    (misnamed / "submision.json").write_text("{}", "utf-8")
    for name in ("README.md", ".hidden", "packed.zip", "stray.txt"):
        (tmp_path / name).write_text("", "utf-8")
    shutil.copytree(submissions["prior"], tmp_path / "good")
    assert submission_paths([misnamed]) == sorted(misnamed.iterdir())
    assert submission_paths([tmp_path / "good"]) == [tmp_path / "good"]
    shutil.copy(submissions["prior"] / "forecasts.parquet", misnamed)
    assert submission_paths([misnamed]) == [misnamed], "an entry without its metadata is still one entry"
    seen = submission_paths([tmp_path])
    assert [path.name for path in seen] == ["good", "misnamed", "packed.zip", "stray.txt"]
    outcomes = dict(check_all([tmp_path], None))
    assert [Path(path).name for path, one in outcomes.items() if one.ok] == ["good"]
    assert "'submision.json' is no file of a submission" in str(outcomes[str(misnamed)].flaws[0])


def test_results_are_written_all_or_none(results: list[Results], tmp_path: Path) -> None:
    broken = dataclasses.replace(results[-1], answered_share=float("inf"))
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_results([*results[:-1], broken], tmp_path)
    assert list(tmp_path.iterdir()) == []
    earlier = {path: path.read_bytes() for path in write_results(results, tmp_path)}
    (tmp_path.parent / f".{tmp_path.name}.{os.getpid()}.part").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        write_results([dataclasses.replace(result, seed=9) for result in results], tmp_path)
    assert {path: path.read_bytes() for path in earlier} == earlier
