"""One hostile entry never stops the others, and texts are what they seem."""

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from beside import module_at
from submission_copy import submission_copy

from kbench.benchmark.questions import Questions
from kbench.benchmark.scoring.score import BootstrapSettings
from kbench.leaderboard.board import check_all, score_all
from kbench.leaderboard.submission.check import check
from kbench.leaderboard.submission.metadata import oddity

entries = module_at(Path(__file__).parents[2] / "tests/support/faults/entries.py")


def test_spoilt_entries_do_not_stop_their_neighbours(submissions: dict[str, Path]) -> None:
    found = entries.attack(submissions["prior"], None, 200, seed=1)
    assert found["stopped"] == []
    assert sum(found["accepted"].values()) < 60


@pytest.mark.parametrize(
    "change", [{"total_seconds": 10**400}, {"authors": ["\ud800"]}, {"hardware": "G\u043e\u043egle"}]
)
def test_a_refused_entry_leaves_the_others_scored(
    change: dict[str, Any], submissions: dict[str, Path], questions: Questions, tmp_path: Path
) -> None:
    bad = submission_copy(submissions["prior"], tmp_path / "bad", name="bad", **change)
    refused: list[str] = []
    settings = BootstrapSettings(resamples=2, seed=0)
    results = score_all([bad, submissions["length"]], questions, settings, refuse=refused.append)
    assert [result.submission.name for result in results] == ["length"]
    assert len(refused) == 1
    assert next(iter(change)) in refused[0] or "cannot be checked" in refused[0]


@pytest.mark.parametrize("name", ["pri0r", "Prior", "pr\u0131or", "prior", "p-r-i-o-r", "prlor"])
def test_a_name_that_resembles_another_is_refused(name: str, submissions: dict[str, Path], tmp_path: Path) -> None:
    entry = submission_copy(submissions["prior"], tmp_path / "entry", name=name)
    (_, first), (_, second) = check_all([submissions["prior"], entry], None)
    assert first.ok
    assert len(second.flaws) == 1, second.flaws


@pytest.mark.parametrize("name", ["setup.py", ".hidden", "forecasts.parquet.exe"])
def test_a_file_that_no_submission_has_is_refused(name: str, submissions: dict[str, Path], tmp_path: Path) -> None:
    entry = submission_copy(submissions["prior"], tmp_path / "entry")
    (entry / name).write_text("import os")
    assert "no file of a submission" in check(entry).flaws[0].message
    path = tmp_path / "entry.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
    assert "no file of a submission" in check(path).flaws[0].message


@pytest.mark.parametrize(
    "text",
    [
        "Jos\u00e9 \u00c1ngel", "M\u00fcller & S\u00f6hne", "\u674e\u660e", "2\u00d7 H200, 3 \u00b5s",
        "\u0418\u0432\u0430\u043d", "\u0645\u06cc\u200c\u062e\u0648", "on \u03b1-data \u2013 \u201cours\u201d",
    ],
)  # fmt: skip
def test_texts_of_all_scripts_are_taken(text: str) -> None:
    assert oddity(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "G\u043e\u043egle", "a \u043e\u0440\u0435 b", "a\u200bb", "x\u202ey", "\uff46\uff55", "\U0001d401", "a\u3164b",
        "\ud800", "a\x1b[2J", "z" + "\u0301" * 6, "\u2800", "\U000e0041", "\ue000", "x\u00adx", "a\u200db",
    ],
)  # fmt: skip
def test_texts_that_are_not_what_they_seem_are_refused(text: str) -> None:
    assert oddity(text) is not None
