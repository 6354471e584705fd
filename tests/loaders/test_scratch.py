"""Temporary folders of which nothing stays behind, whenever the process is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from kbench.loaders.storage import janitor, scratch

LISTENING = """
import os, sys
made = []
def listen(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & os.O_CREAT and str(args[0]).startswith({folder!r}):
        made.append(args[0])
sys.addaudithook(listen)
from kbench.cli import main
sys.argv = ["kbench", "problems", "show", "relu"]
assert main() == 0
import tempfile
import time
assert tempfile.gettempdir() == {folder!r}
print(*made, file=sys.stderr)
"""


def test_a_command_makes_no_file_to_try_out_the_folder_of_temporary_files(tmp_path: Path) -> None:
    code = LISTENING.format(folder=str(tmp_path))
    said = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert (said.returncode, said.stderr.strip()) == (0, "")


@pytest.mark.parametrize("missing", [True, False])
def test_the_folder_is_the_one_that_tempfile_would_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none" if missing else tmp_path))
    scratch.settle_temporary_folder()
    # One that cannot be used is left to tempfile, which goes on searching.
    assert tempfile.tempdir == (None if missing else str(tmp_path))


def test_a_folder_is_watched_before_it_is_there_and_forgotten_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, Path, bool]] = []
    for name in ("watch_path", "forget_path"):
        monkeypatch.setattr(janitor, name, lambda path, name=name: told.append((name, path, path.exists())))
    with scratch.temporary_folder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").touch()
    assert told == [("watch_path", folder, False), ("forget_path", folder, False)]


NESTING = """
import os
from kbench.loaders.storage import scratch
folder = scratch.make_folder()
print(folder, flush=True)
os.chdir(folder)
for _ in range(1500):
    os.mkdir("d")
    os.chdir("d")
os.kill(os.getpid(), 9)
"""


def test_folders_nested_deeper_than_python_calls_are_removed_after_a_kill(tmp_path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", NESTING], env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True
    )
    assert said.returncode == -9
    end = time.monotonic() + 60.0
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    left = list(tmp_path.iterdir())
    subprocess.run(["rm", "-rf", "--", *left], check=True)
    assert left == []
    assert said.stdout.startswith(str(tmp_path))
