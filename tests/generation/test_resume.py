import dataclasses
import datetime
import json
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbench.generation.assembly.figures import Samples
from kbench.generation.campaign.campaign import Drive
from kbench.generation.campaign.drive import drive, recorded_states
from kbench.generation.campaign.plan import read_spec, runs_of
from kbench.generation.log import LogEntry, LogWriter, read_environments, read_log, record_environments
from kbench.generation.search.action import StartStep, next_action
from kbench.generation.search.reducer import reduce, replay, start
from kbench.generation.search.settings import Budget, FilterSettings, refuse_changes
from kbench.generation.search.state import FRESH, ProposalRequest, RunState
from kbench.loaders.corpus.places import shipped
from kbench.loaders.storage.lines import sealed
from kbench.schemas import DataError, InfrastructureError, UserError
from kbench.schemas.ids import content_hash

from .conftest import settings_for, ticking
from .test_executors import ENVIRONMENT

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


def test_a_finished_run_resumed_adds_nothing(run_folder: Path, how: Drive) -> None:
    settings = settings_for("puct")
    drive(run_folder, [settings], how)
    before = (run_folder / "events.jsonl").read_bytes()
    drive(run_folder, [settings], how)
    assert (run_folder / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "puct", "patience": 5, "exploration": 2.0}, r"patience: 8 -> 5; exploration: 1.0 -> 2.0"),
        ({"method": "random"}, "method: 'puct' -> 'random'"),
        (
            {"method": "puct", "filter": FilterSettings(surrogate="prior")},
            r"changed: filter.surrogate: None -> 'prior'\.",
        ),
    ],
)
def test_a_changed_setting_is_refused_with_the_difference(
    run_folder: Path, how: Drive, changes: dict[str, Any], message: str
) -> None:
    drive(run_folder, [settings_for("puct")], how)
    with pytest.raises(UserError, match=message):
        drive(run_folder, [settings_for(**changes)], how)


def test_the_refused_run_is_named_as_its_log_names_it(run_folder: Path, how: Drive) -> None:
    drive(run_folder, [settings_for("puct")], how)
    drive(run_folder, [settings_for("puct", batch=3, budget=Budget(measurements=30))], how)
    with pytest.raises(UserError, match=rf"run '{settings_for('puct').run_id}' .*changed: seed"):
        drive(run_folder, [settings_for("puct", batch=3, seed=1)], how)


def test_no_kernel_is_measured_twice_in_a_campaign(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for(method, filter=chosen) for method in METHODS for chosen in FILTERS]
    progress = drive(tmp_path, runs, how)
    measured = [e.payload["kernel_id"] for e in read_log(tmp_path) if e.kind == "kernel_measured"]
    assert len(measured) == len(set(measured)) == progress.measured
    assert progress.measured == 24 * len(runs)


@pytest.mark.usefixtures("ticks")
def test_a_campaign_stopped_by_its_deadline_goes_on_where_it_stopped(tmp_path: Path, how: Drive) -> None:
    runs = [settings_for(method, seed=seed) for method in METHODS for seed in range(3)]
    drive(tmp_path, runs, dataclasses.replace(how, deadline_s=40))
    stopped = sum(state.charge.measurements for state in recorded_states(tmp_path).values())
    assert 0 < stopped < 24 * len(runs)
    drive(tmp_path, runs, how)
    states = recorded_states(tmp_path)
    assert {state.charge.measurements for state in states.values()} == {24}


BEGUN = {"settings": settings_for("random").to_json()}
CLOCK = ticking()


def entry(index: int, kind: str, payload: dict[str, Any], at: str = CLOCK) -> LogEntry:
    return LogEntry("r", index, kind, 0, at, payload)


@pytest.mark.parametrize(
    "first",
    [
        entry(0, "run_started", {}),
        entry(0, "run_started", {"settings": None}),
        entry(0, "run_started", {"settings": []}),
        entry(0, "run_started", {"settings": BEGUN["settings"] | {"seeds": "4"}}),
        entry(0, "run_started", {"settings": BEGUN["settings"] | {"budget": {"hours": 3}}}),
        entry(0, "run_started", BEGUN, at="yesterday"),
        entry(0, "step_completed", {}),
    ],
    ids=["no settings", "null", "a list", "a wrong type", "an unknown limit", "a bad time", "another kind"],
)
def test_a_first_fact_that_begins_no_run_is_refused_with_run_and_index(first: LogEntry) -> None:
    with pytest.raises(DataError, match=r"run 'r' entry 0"):
        replay([first])


@pytest.mark.parametrize(
    ("kind", "payload", "at"),
    [
        ("step_imagined", {}, CLOCK),
        ("step_completed", {}, "yesterday"),
        ("step_completed", {}, "2026-01-01T00:00:00"),
        ("step_started", {"requests": [FRESH.to_json() | {"operator": "imagine"}]}, CLOCK),
        ("step_started", {}, CLOCK),
        ("kernel_lost", {"kernel_id": "unknown", "reason": "gone"}, CLOCK),
        ("kernel_measured", {"kernel_id": "unknown", "measurements": "none"}, CLOCK),
        ("proposal_failed", {"slot": 0, "reason": None}, CLOCK),
        ("candidates_filtered", {"decisions": [{"kernel_id": "unknown", "measure": True, "forecast": None}]}, CLOCK),
        ("budget_changed", {"budget": {"measurements": "4"}}, CLOCK),
    ],
)  # fmt: skip
def test_a_fact_that_does_not_fit_is_refused_with_run_and_index(kind: str, payload: dict[str, Any], at: str) -> None:
    with pytest.raises(DataError, match=rf"run 'r' entry 1 \({kind}\)"):
        replay([entry(0, "run_started", BEGUN), entry(1, kind, payload, at)])


RUNS = Path(__file__).parents[2] / "docs" / "evidence" / "runs"


@pytest.mark.parametrize("name", ["hard-1", "hard-2"])
def test_every_recorded_step_of_the_language_models_searches_follows_from_the_log_before_it(name: str) -> None:
    states: dict[str, RunState] = {}
    answered: set[tuple[str, int]] = set()
    planned: dict[tuple[str, int], tuple[object, tuple[ProposalRequest, ...]]] = {}
    texts = Samples(shipped())
    for entry in map(texts.entry, read_log(RUNS / name)):
        state = states.get(entry.run_id)
        states[entry.run_id] = after = start(entry) if state is None else reduce(state, entry)
        if state is not None and entry.kind == "step_started":
            # A step that nobody has answered is planned again, maybe by other rules, and counts as it was planned last.
            todo = next_action(dataclasses.replace(state, requests=()))
            planned[entry.run_id, entry.step] = todo, after.requests
        if entry.kind == "candidate_proposed":
            answered.add((entry.run_id, entry.step))
    assert answered
    for place in answered & planned.keys():
        todo, requests = planned[place]
        assert todo == StartStep(requests), place
    runs, _ = runs_of(read_spec(RUNS / name / "campaign.json"))
    assert len(runs) == len(states)
    for settings, state in zip(runs, states.values(), strict=True):
        refuse_changes(state.run_id, state.settings, settings)


OTHER = dataclasses.replace(ENVIRONMENT, env_id=content_hash("another"))


def entries(count: int, run_id: str = "a") -> list[LogEntry]:
    return [
        LogEntry(run_id, i, "step_completed", i, "2026-01-01T00:00:00.000Z", {"text": "é\n" * i}) for i in range(count)
    ]


def write(folder: Path, rows: list[LogEntry]) -> bytes:
    with LogWriter(folder) as log:
        log.write(rows)
    return (folder / "events.jsonl").read_bytes()


def test_a_log_cut_at_any_byte_opens_with_whole_lines_and_continues(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", entries(6))
    lines = whole.splitlines(keepends=True)
    for cut in random.Random(0).sample(range(len(whole)), 60):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / "events.jsonl").write_bytes(whole[:cut])
        kept = len(list(read_log(folder)))
        assert sum(map(len, lines[:kept])) <= cut
        assert sum(map(len, lines[: kept + 1])) > cut
        assert write(folder, entries(6)[kept:]) == whole


def test_damage_in_the_middle_is_refused_with_line_and_offset(tmp_path: Path) -> None:
    whole = write(tmp_path, entries(4))
    lines = whole.splitlines(keepends=True)
    lines[1] = b'{"at": 1}\n'
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=rf"line 2 at byte {len(lines[0])} "):
        list(read_log(tmp_path))
    with pytest.raises(DataError, match="line 2"):
        LogWriter(tmp_path)


def test_no_flipped_bit_is_accepted(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", entries(5))
    rng = random.Random(0)
    (tmp_path / "events.jsonl").touch()
    for at in rng.sample(range(len(whole)), 400):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        (tmp_path / "events.jsonl").write_bytes(damaged)
        with pytest.raises(DataError, match=r"events\.jsonl"):
            list(read_log(tmp_path))


def test_a_log_without_hashes_is_read_and_goes_on_with_them(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text("".join(entry.line() for entry in entries(3)))
    write(tmp_path, entries(5)[3:])
    assert list(read_log(tmp_path)) == entries(5)
    assert (tmp_path / "events.jsonl").read_text().count('"sum":') == 2


def test_a_missing_line_is_noticed_by_its_index(tmp_path: Path) -> None:
    lines = write(tmp_path, entries(4)).splitlines(keepends=True)
    (tmp_path / "events.jsonl").write_bytes(b"".join(lines[:1] + lines[2:]))
    with pytest.raises(DataError, match="jumps to index 2, expected 1"):
        list(read_log(tmp_path))


def test_a_batch_is_on_disk_before_append_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_size), real(fd))[1])
    with LogWriter(tmp_path) as log:
        log.write(entries(3))
        assert synced == [(tmp_path / "events.jsonl").stat().st_size]


@pytest.mark.parametrize("damage", [lambda data: data[:-20], lambda data: b"", lambda data: b"\0" * 40 + data[40:]])
def test_a_damaged_compressed_part_is_named(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    part = tmp_path / "events-000.jsonl.xz"
    part.write_bytes(damage(lzma.compress("".join(entry.line() for entry in entries(20)).encode())))
    with pytest.raises(DataError, match=rf"{part} cannot be decompressed"):
        list(read_log(tmp_path))


def test_a_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UserError, match=rf"{folder}.* cannot be written .*; choose another folder for --out"):
            LogWriter(folder)


def test_a_full_disk_is_named_with_the_file_and_the_log_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(tmp_path / "whole", entries(6))
    write(tmp_path / "run", entries(3))
    real = os.write
    room = [100]

    def filling(descriptor: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = real(descriptor, data[: room[0]])
        room[0] -= taken
        return taken

    with monkeypatch.context() as patch, LogWriter(tmp_path / "run") as log:
        patch.setattr(os, "write", filling)
        expected = r"events.jsonl cannot be written \(No space left on device\).*it goes on from what is there"
        with pytest.raises(InfrastructureError, match=expected):
            log.write(entries(6)[3:])
    kept = len(list(read_log(tmp_path / "run")))
    assert write(tmp_path / "run", entries(6)[kept:]) == whole


def test_a_compressed_log_is_continued_in_a_live_file(tmp_path: Path) -> None:
    whole = write(tmp_path / "run", entries(10))
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "events-000.jsonl.xz").write_bytes(lzma.compress(whole))
    write(tmp_path / "packed", entries(12)[10:])
    assert list(read_log(tmp_path / "packed")) == entries(12)


def test_each_environment_is_kept_once(tmp_path: Path) -> None:
    for current in ([ENVIRONMENT], [ENVIRONMENT, OTHER], [OTHER]):
        record_environments(tmp_path, current)
    assert read_environments(tmp_path) == [ENVIRONMENT, OTHER]


def test_a_last_line_that_is_json_and_no_environment_is_refused_not_cut_off(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    with (tmp_path / "environments.jsonl").open("ab") as stream:
        stream.write(sealed(json.dumps({"env_id": content_hash("x"), "colour": "green"})))
    with pytest.raises(DataError, match=r"environments.jsonl line 2 has unknown field 'colour'"):
        record_environments(tmp_path, [OTHER])


def test_the_environments_of_a_log_file_lie_beside_it(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    (tmp_path / "events.jsonl").write_text("")
    assert read_environments(tmp_path / "events.jsonl") == [ENVIRONMENT]
