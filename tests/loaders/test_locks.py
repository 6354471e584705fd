"""A lock ends with its process, though the janitor of one that was killed may hold it for a moment more."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kbench.loaders.storage import janitor, lock
from kbench.loaders.storage.lines import LineWriter, parse_json
from kbench.loaders.storage.lock import held


def write_no_line(path: Path) -> None:
    LineWriter(path, parse_json).close()


def hold_once(path: Path) -> None:
    with held(path.parent):
        pass


@pytest.mark.parametrize("take", [write_no_line, hold_once])
def test_a_lock_that_the_janitor_of_a_killed_process_holds_is_waited_for(
    take: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run" / "lines.jsonl"
    path.parent.mkdir()
    path.touch()
    handles = [os.open(place, os.O_RDONLY) for place in (path, path.parent)]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_EX)
    tries = iter([[], [], handles])
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: [os.close(handle) for handle in next(tries)])
    take(path)
    assert next(tries, None) is None


@pytest.mark.parametrize("take", [write_no_line, hold_once])
@pytest.mark.parametrize("call", [(os, "open"), (fcntl, "flock")], ids=["opened", "locked"])
def test_what_a_janitor_removes_before_it_is_locked_is_made_again(
    call: tuple[Any, str], take: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run" / "lines.jsonl"
    real = getattr(*call)
    calls: list[Any] = []
    path.parent.mkdir()

    def late(place: Any, *how: int) -> Any:
        if isinstance(place, int) or tmp_path in Path(place).parents:
            calls.append(place)
            if len(calls) == 1:
                path.unlink(missing_ok=True)
                path.parent.rmdir()
        return real(place, *how)

    monkeypatch.setattr(*call, late)
    take(path)
    assert len(calls) == 2


def test_a_janitor_removes_nothing_that_another_process_holds(tmp_path: Path) -> None:
    places = {name: tmp_path / name for name in ("corpus", "empty", "lines.jsonl")}
    for name in ("corpus", "empty"):
        places[name].mkdir()
    (places["corpus"] / "rows").touch()
    places["lines.jsonl"].touch()
    told = f"+p{places['corpus']}\n+e{places['empty']}\n+e{places['lines.jsonl']}\n".encode()
    command = [sys.executable, "-I", "-S", "-c", janitor.PROGRAM, "0"]
    handles = [os.open(place, os.O_RDONLY) for place in places.values()]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_EX)
    subprocess.run(command, input=told, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {*places}
    for handle in handles:
        os.close(handle)
    subprocess.run(command, input=told, check=True)
    assert not list(tmp_path.iterdir())
