"""What the machine refuses is told in one line with exit code 1 or 2, and leaves nothing behind.

A few commands stand for all that write.
"""

import ctypes
import errno
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kbench.loaders.storage.atomic import replacing

ROOT = Path(__file__).parents[1]
KERNEL = ROOT / "examples" / "kernels" / "transpose__cuda__padded_tile.py"
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
COMMANDS = {
    "import": ["data", "import", "table.csv", "--map", "source=code,problem=task,runtime_us=us,gpu=card", "--out"],
    "export": ["data", "export", "--problem", "gelu_tanh", "--gpu", "H200", "--format", "jsonl", "--out"],
    "references": ["problems", "references", "--cpu", "--problem", "gelu_tanh", "--out"],
}


def only_as_permitted() -> None:
    """Root, too, may not write where the mode says so; without effect for others."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def no_room() -> None:
    """No file may grow above 100 bytes: the nearest to a full disk that needs no mount."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def refusal(arguments: list[str], cwd: Path, before: Callable[[], None] | None = None) -> str:
    """The one line that a command says before it ends with 1 or 2."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "kbench", *arguments], cwd=cwd, preexec_fn=before, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (1, 2), done.stderr
    assert "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if not line.endswith("…")]
    assert line.startswith("kbench: ")
    return line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table to import, and a folder for the output."""
    rows = "".join(f'"def f(): return {number}",gelu_tanh,{number}.5,H200\n' for number in range(1, 9))
    (tmp_path / "table.csv").write_text("code,task,us,card\n" + rows)
    (tmp_path / "there").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_read_only_folder_is_one_line(name: str, folder: Path) -> None:
    (folder / "there").chmod(0o555)
    line = refusal([*COMMANDS[name], "there/out.jsonl"], folder, only_as_permitted)
    assert "Permission denied" in line or "cannot be written" in line
    assert not list((folder / "there").iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_without_room_is_one_line_and_nothing_half_written_is_kept(name: str, folder: Path) -> None:
    assert "File too large" in refusal([*COMMANDS[name], "there/out.jsonl"], folder, no_room)
    left = list((folder / "there").iterdir())
    # A log keeps its place, with no line in it that is not whole.
    assert [path.name for path in left] == (["out.jsonl"] if name == "references" else [])


def test_what_a_full_disk_refuses_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left") as caught, replacing(tmp_path / "out.json"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert caught.value.filename == str(tmp_path / "out.json")
    assert not list(tmp_path.iterdir())


def test_a_folder_of_builds_that_cannot_be_written_is_one_line_that_names_the_variable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "there").chmod(0o555)
    monkeypatch.setenv("KBENCH_CACHE", str(folder / "there" / "cache"))
    line = refusal(["measure", str(KERNEL), "--problem", "transpose", "--check-only"], folder, only_as_permitted)
    assert "Permission denied" in line
    assert "KBENCH_CACHE" in line


def test_a_busy_port_is_one_line_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refusal(["leaderboard", "serve", str(tmp_path), "--port", str(port)], tmp_path)
    assert f"port {port}" in line
    assert "--port 0" in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["data", "query", "--sort", "speeup"], "did you mean 'speedup'"),
        (["data", "qury"], "Did you mean 'query'?"),
        (["kernels", "show"], "Missing argument 'ID_PREFIX' (see kbench kernels show --help)"),
        (["measure", str(KERNEL), "--problem", "transpose", "--watch"], "--watch takes one FILE, and neither"),
    ],
)
def test_an_error_of_a_command_with_json_is_one_line_of_json(arguments: list[str], said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kbench", *arguments, "--json"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert said in told["error"]
    assert told["exit_code"] == done.returncode == 2
    assert not done.stdout


@pytest.mark.parametrize("moment", ["while it works", "while a module that swallows exceptions is imported", "at exit"])
def test_an_interrupt_is_one_line_and_exit_code_130(moment: str, tmp_path: Path) -> None:
    interrupt = "os.kill(os.getpid(), signal.SIGINT)"
    (tmp_path / "swallowing.py").write_text(
        f"import os, signal\ntry:\n    {interrupt}\nexcept BaseException:\n    pass\n"
    )
    work = {
        "while it works": interrupt,
        "while a module that swallows exceptions is imported": "import swallowing",
        "at exit": f"atexit.register(lambda: {interrupt}); {interrupt}",
    }[moment]
    code = (
        "import atexit, os, signal, kbench.__main__, kbench.cli\n"
        f"def work():\n    {work}\n    return 0\n"
        "kbench.cli.main = work\nkbench.__main__.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}"},
    )  # fmt: skip
    assert done.stderr.splitlines() == ["kbench: interrupted"]
    assert done.returncode == 130


@pytest.mark.parametrize("command", [["data", "info"], COMMANDS["import"], ["leaderboard", "check"]])
def test_a_path_that_is_not_utf_8_is_refused(command: list[str], folder: Path) -> None:
    assert "is not UTF-8; rename the file or folder" in refusal([*command, "there\udcff"], folder)
