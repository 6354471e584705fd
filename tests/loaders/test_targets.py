"""Where output may go: never in the place of a device, a pipe or a link, nor of what another process put there."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kbench.loaders.corpus.expression import PYARROW, read_expression
from kbench.loaders.storage.atomic import replace_together, whole_folder, write_atomically
from kbench.schemas import UnknownNameError, UserError

ROOT = Path(__file__).parents[2]


def test_a_pipe_or_device_is_never_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("pipe")
    for target in (pipe, link, tmp_path):
        with pytest.raises(UserError, match="is a folder, device or pipe"):
            write_atomically(target, b"x")
    with pytest.raises(NotADirectoryError):
        replace_together(pipe, {"a": b"x"})
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    for name in ("there", "not_yet"):
        (tmp_path / f"to_{name}").symlink_to(name)
    (tmp_path / "there").write_text("old")
    for name in ("there", "not_yet"):
        write_atomically(tmp_path / f"to_{name}", b"new")
        assert (tmp_path / f"to_{name}").is_symlink()
        assert (tmp_path / name).read_text() == "new"


def test_the_slower_of_two_processes_does_not_replace_the_folder_of_the_faster(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def make() -> None:
        with whole_folder(out):
            out.mkdir(exist_ok=True)
            (out / "faster").touch()

    with pytest.raises(UserError, match="exists now"):
        make()
    assert [path.name for path in tmp_path.rglob("*")] == ["out", "faster"]


def test_a_command_whose_standard_output_is_closed_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kbench", "data", "export", "--problem", "gelu_tanh", "-o", "-"]
    done = subprocess.run(
        command, cwd=tmp_path, preexec_fn=lambda: os.close(1), check=False, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert (done.returncode, "rror" in done.stderr) == (0, False), done.stderr


def test_a_very_long_unknown_name_is_refused_at_once() -> None:
    with pytest.raises(UnknownNameError) as caught:
        read_expression("x" * 100_000, {"speedup", "runtime_us"}, PYARROW)
    assert len(str(caught.value)) < 300
