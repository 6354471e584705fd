"""`kbench data fetch gpu-forecasters` on a Hub that serves the release in miniature, and what can be done with it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Files = dict[str, dict[str, bytes]]


@pytest.fixture
def served(hub: Any, release_files: Files) -> dict[str, str]:
    """The release on the test's Hub; commits by repository."""
    return {repo: hub.add(repo, files) for repo, files in release_files.items()}


def test_the_release_is_pulled_and_scored(served: dict[str, str], kbench: Run, fresh: Run, tmp_path: Path) -> None:
    done = kbench("data", "fetch", "gpu-forecasters")
    assert done.returncode == 0, done.stderr
    for repo, commit in served.items():
        assert f"{repo} at {commit}" in done.stdout
    assert "licence: not stated" in done.stdout
    assert "differs: kernels: 12,388 announced, " in done.stdout

    loaded = fresh(
        "-c", "import kbench; print(kbench.load('gpu-forecasters', config='questions', split='test').count())"
    )
    assert loaded.stdout.strip() == "7", loaded.stderr

    scored = kbench(
        "evaluate", "--dataset", "gpu-forecasters", "--surrogate", "replay:gemini3_flash",
        "--tracks", "forecast,select", "--resamples", "20", "--no-report", "--json",
        "--out", str(tmp_path / "scored"),
    )  # fmt: skip
    assert scored.returncode == 0, scored.stderr
    found = json.loads(scored.stdout)
    assert found["queries"] == 7
    assert found["repeats"] == 3

    assert found["tracks"]["forecast"]["rps"]["ceiling"] is None, "the release states no intervals"
    assert found["tracks"]["select"].get("gpu_seconds_per_decision") is None, "nor what measuring cost"

    refused = kbench("data", "push", "user/copy", "--path", str(tmp_path / "home" / "gpu-forecasters"))
    assert refused.returncode == 2
    assert "may not be pushed: their licence is not stated" in refused.stderr


def test_only_some_datasets_at_a_pinned_commit(served: dict[str, str], hub: Any, kbench: Run, tmp_path: Path) -> None:
    repo = "codezakh/gpu-forecasters-eval-set"
    hub.add(repo, {"later/eval-0.parquet": b"not of this commit"})
    done = kbench(
        "data", "fetch", "gpu-forecasters", "--only", "eval-set", "--revision", served[repo], "--json",
        "--out", str(tmp_path / "some"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["revisions"] == {repo: served[repo]}
    assert found["rows"]["questions"] == 7
    assert any("rows of rl-training-pool: 2,322 announced, 0 found" in line for line in found["differences"])


def test_a_pull_that_fails_keeps_what_was_pulled_before(served: dict[str, str], hub: Any, kbench: Run) -> None:
    assert kbench("data", "fetch", "gpu-forecasters", "--only", "eval-set").returncode == 0
    before = json.loads(kbench("data", "info", "gpu-forecasters", "--json").stdout)
    repo = "codezakh/gpu-forecasters-eval-set"
    data = hub.commits[repo][-1][1]["trimul/eval-00000.parquet"]
    hub.add(repo, {"trimul/eval-00000.parquet": data[: len(data) // 2]})
    broken = kbench("data", "fetch", "gpu-forecasters", "--only", "eval-set")
    assert broken.returncode == 2
    assert "cannot be read as Parquet" in broken.stderr
    assert "Traceback" not in broken.stderr
    assert json.loads(kbench("data", "info", "gpu-forecasters", "--json").stdout) == before


def test_a_release_without_one_of_its_datasets_is_one_line(hub: Any, kbench: Run, tmp_path: Path) -> None:
    done = kbench("data", "fetch", "gpu-forecasters", "--only", "eval-set")
    assert done.returncode == 2
    assert "repository 'codezakh/gpu-forecasters-eval-set' was not found on the Hub" in done.stderr
    hub.add("codezakh/gpu-forecasters-eval-set", {"README.md": b"moved"})
    moved = kbench("data", "fetch", "gpu-forecasters", "--only", "eval-set")
    assert "holds no Parquet file" in moved.stderr
    assert not (tmp_path / "home").exists()


def test_a_config_that_is_listed_and_not_there_is_one_line(served: dict[str, str], hub: Any, kbench: Run) -> None:
    hub.lost.add("trimul/eval-00000.parquet")
    done = kbench("data", "fetch", "gpu-forecasters", "--only", "eval-set")
    assert done.returncode == 2, done.stderr
    assert "the Hub refused 'codezakh/gpu-forecasters-eval-set' (404)" in done.stderr
    assert "Traceback" not in done.stderr
