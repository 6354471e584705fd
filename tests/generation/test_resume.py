from __future__ import annotations

import dataclasses
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kbench.generation.campaign.drive import Drive, drive, recorded_states
from kbench.generation.log import LogWriter, read_log
from kbench.generation.search.settings import Budget, FilterSettings
from kbench.schemas import DataError, UserError

from .conftest import settings_for

METHODS = ("random", "hill_climb", "evolve", "puct")
FILTERS = (None, FilterSettings(surrogate="online", draw=2))


def test_killed_at_30_moments_that_change_daily_every_search_resumes_to_the_same_log(tmp_path: Path) -> None:
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    script = Path(__file__).with_name("killing.py")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(script.parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "30", today],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["different"] == [], f"with the seed {today}"
    assert found["hits"] >= 5


@pytest.mark.parametrize("chosen", FILTERS, ids=["plain", "surrogate"])
@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, how: Drive, method: str, chosen: FilterSettings) -> None:
    settings = settings_for(method, filter=chosen)
    logs = []
    for name in ("one", "two"):
        drive(tmp_path / name, [settings], how)
        logs.append((tmp_path / name / "events.jsonl").read_bytes())
    assert logs[0] == logs[1]
    assert logs[0].count(b"kernel_measured") == 24


def test_another_seed_gives_another_search(tmp_path: Path, how: Drive) -> None:
    for seed in (0, 1):
        drive(tmp_path / str(seed), [settings_for("random", seed=seed)], how)
    ids = [{e.payload.get("kernel_id") for e in read_log(tmp_path / str(seed))} for seed in (0, 1)]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("method", METHODS)
def test_a_log_cut_between_any_two_lines_resumes_to_the_same_log(tmp_path: Path, how: Drive, method: str) -> None:
    settings = settings_for(method, filter=FILTERS[1], budget=Budget(measurements=12))
    drive(tmp_path / "whole", [settings], how)
    whole = (tmp_path / "whole" / "events.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    for count in range(len(lines)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(b"".join(lines[:count]))
        drive(folder, [settings], how)
        assert (folder / "events.jsonl").read_bytes() == whole, f"cut after line {count}"


def test_a_finished_run_resumed_adds_nothing(run_folder: Path, how: Drive) -> None:
    settings = settings_for("puct")
    drive(run_folder, [settings], how)
    before = (run_folder / "events.jsonl").read_bytes()
    drive(run_folder, [settings], how)
    assert (run_folder / "events.jsonl").read_bytes() == before


def test_a_larger_budget_continues_a_finished_run(run_folder: Path, how: Drive) -> None:
    drive(run_folder, [settings_for("puct", budget=Budget(measurements=8))], how)
    drive(run_folder, [settings_for("puct", budget=Budget(measurements=16))], how)
    (state,) = recorded_states(run_folder).values()
    assert state.charge.measurements == 16


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "puct", "patience": 5, "exploration": 2.0}, r"patience: 8 -> 5; exploration: 1.0 -> 2.0"),
        ({"method": "random"}, "method: 'puct' -> 'random'"),
    ],
)
def test_a_changed_setting_is_refused_with_the_difference(
    run_folder: Path, how: Drive, changes: dict[str, Any], message: str
) -> None:
    drive(run_folder, [settings_for("puct")], how)
    with pytest.raises(UserError, match=message):
        drive(run_folder, [settings_for(**changes)], how)


def test_an_entry_of_no_known_kind_is_refused(run_folder: Path, how: Drive) -> None:
    drive(run_folder, [settings_for("random", budget=Budget(measurements=4))], how)
    imagined = [
        dataclasses.replace(entry, kind="step_imagined") if entry.kind == "step_completed" else entry
        for entry in read_log(run_folder)
    ]
    (run_folder / "events.jsonl").unlink()
    with LogWriter(run_folder) as log:
        log.append(imagined)
    with pytest.raises(DataError, match=r"step_imagined.*no known kind"):
        recorded_states(run_folder)


def test_no_kernel_is_measured_twice_in_a_campaign(tmp_path: Path, how: Drive) -> None:
    runs = [
        settings_for(method, filter=chosen, seed=seed) for method in METHODS for chosen in FILTERS for seed in (0, 1)
    ]
    progress = drive(tmp_path, runs, how)
    measured = [e.payload["kernel_id"] for e in read_log(tmp_path) if e.kind == "kernel_measured"]
    assert len(measured) == len(set(measured)) == progress.measured
    assert progress.measured == 24 * len(runs)


def test_a_campaign_stopped_by_its_deadline_goes_on_where_it_stopped(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for(method, seed=seed) for method in METHODS for seed in range(3)]
    drive(tmp_path, runs, dataclasses.replace(how, gpu_seconds=2.0))
    stopped = sum(state.charge.measurements for state in recorded_states(tmp_path).values())
    assert 0 < stopped < 24 * len(runs)
    drive(tmp_path, runs, how)
    states = recorded_states(tmp_path)
    assert {state.charge.measurements for state in states.values()} == {24}
