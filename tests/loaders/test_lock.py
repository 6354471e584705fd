"""Whoever changes a folder holds it: others wait or are refused, and what both wrote is there."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest

from kbench.loaders.storage.atomic import replace_together, whole_folder
from kbench.loaders.storage.lines import LineWriter, parse_json
from kbench.loaders.storage.lock import held
from kbench.schemas import UserError


def put(folder: Path, who: int) -> None:
    for number in range(10):
        replace_together(folder, {f"{who}-{number}": b"x"})


def test_files_that_two_processes_put_into_one_folder_are_all_there(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    writers = [multiprocessing.get_context("fork").Process(target=put, args=(folder, who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sorted(os.listdir(folder)) == sorted(f"{who}-{number}" for who in range(3) for number in range(10))
    assert os.listdir(tmp_path) == ["shared"]


def hold(folder: Path, made: Path) -> None:
    with whole_folder(folder) as aside:
        (aside / "half").touch()
        made.touch()
        time.sleep(60)


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_that_is_being_made_is_refused_and_free_once_its_maker_is_killed(there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    if there:
        folder.mkdir()
    writer = multiprocessing.get_context("fork").Process(target=hold, args=(folder, tmp_path / "made"))
    writer.start()
    while not (tmp_path / "made").exists():
        time.sleep(0.01)
    with pytest.raises(UserError, match="is being changed by another process"), whole_folder(folder):
        pass
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    end = time.monotonic() + 20
    while set(os.listdir(tmp_path)) - {"made"} != ({"out"} if there else set()) and time.monotonic() < end:
        time.sleep(0.05)
    assert set(os.listdir(tmp_path)) == ({"made", "out"} if there else {"made"}), "the janitor leaves nothing"
    with held(folder):
        (folder / "mine").touch()
    assert os.listdir(folder) == ["mine"]


def write_lines(path: Path, count: int, started: Path) -> None:
    with LineWriter(path, parse_json) as lines:
        lines.append(["{}"] * count)
        started.touch()
        time.sleep(60)


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_of_lines_goes_with_its_folders_when_its_writer_is_killed_before_the_first(
    count: int, tmp_path: Path
) -> None:
    path, started = tmp_path / "run" / "cache" / "lines.jsonl", tmp_path / "started"
    writer = multiprocessing.get_context("fork").Process(target=write_lines, args=(path, count, started))
    writer.start()
    while not started.exists():
        time.sleep(0.01)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    end = time.monotonic() + (20 if not count else 1)
    while (tmp_path / "run").exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert (tmp_path / "run").exists() == path.exists() == (count > 0)
