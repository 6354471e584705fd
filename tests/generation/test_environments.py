from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from kbench.generation.log.environments import read_environments, record_environments
from kbench.loaders.storage.lines import sealed
from kbench.schemas import DataError
from kbench.schemas.ids import content_hash

from .test_executors import ENVIRONMENT

OTHER = dataclasses.replace(ENVIRONMENT, env_id=content_hash("another"))


def test_each_environment_is_kept_once(tmp_path: Path) -> None:
    for current in ([ENVIRONMENT], [ENVIRONMENT, OTHER], [OTHER]):
        record_environments(tmp_path, current)
    assert read_environments(tmp_path) == [ENVIRONMENT, OTHER]


def test_a_file_cut_at_any_byte_reads_and_is_completed(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT, OTHER])
    path = tmp_path / "environments.jsonl"
    whole = path.read_bytes()
    for cut in range(0, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert read_environments(tmp_path) == [ENVIRONMENT, OTHER][: whole[:cut].count(b"\n")]
        record_environments(tmp_path, [ENVIRONMENT, OTHER])
        assert path.read_bytes() == whole


def test_damage_in_the_middle_is_refused_with_its_line(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT, OTHER])
    path = tmp_path / "environments.jsonl"
    path.write_bytes(b"{\n" + path.read_bytes())
    with pytest.raises(DataError, match=r"environments.jsonl: line 1 at byte 0 is not JSON"):
        read_environments(tmp_path)


def test_a_last_line_that_is_json_and_no_environment_is_refused_not_cut_off(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    with (tmp_path / "environments.jsonl").open("ab") as stream:
        stream.write(sealed(json.dumps({"env_id": content_hash("x"), "colour": "green"})))
    with pytest.raises(DataError, match=r"environments.jsonl line 2 has unknown field 'colour'"):
        record_environments(tmp_path, [OTHER])


def test_an_environment_is_on_disk_before_its_measurements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    record_environments(tmp_path, [ENVIRONMENT])
    assert synced == [(tmp_path / "environments.jsonl").stat().st_size]


def test_the_environments_of_a_log_file_lie_beside_it(tmp_path: Path) -> None:
    record_environments(tmp_path, [ENVIRONMENT])
    (tmp_path / "events.jsonl").write_text("")
    assert read_environments(tmp_path / "events.jsonl") == [ENVIRONMENT]
