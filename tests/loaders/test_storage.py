"""Where output may go, who may hold it, and foreign files that are read in a process of their own, which may die."""

import fcntl
import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kbench.loaders.corpus.expression import read_expression
from kbench.loaders.storage import janitor, lock, scratch
from kbench.loaders.storage.atomic import replace_together, whole_folder, write_atomically
from kbench.loaders.storage.isolation import Reader
from kbench.loaders.storage.lines import LineWriter, parse_json
from kbench.loaders.storage.lock import held
from kbench.loaders.storage.parquet_stream import BATCH_ROWS, open_parquet, read_schema
from kbench.schemas import DataError, UnknownNameError, UserError

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
        read_expression("x" * 100_000, {"speedup", "runtime_us"})
    assert len(str(caught.value)) < 300


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
    end = time.monotonic() + 120
    while set(os.listdir(tmp_path)) != {"made", "out"} and time.monotonic() < end:
        time.sleep(0.05)
    assert set(os.listdir(tmp_path)) == {"made", "out"}, "the janitor leaves nothing half made"
    with held(folder):
        (folder / "mine").touch()
    assert os.listdir(folder) == ["mine"]


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_without_a_line_goes_with_its_folders(count: int, tmp_path: Path) -> None:
    path = tmp_path / "run" / "cache" / "lines.jsonl"
    with LineWriter(path, parse_json) as lines:
        lines.append(["{}"] * count)
    assert (tmp_path / "run").exists() == path.exists() == (count > 0)


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
def test_tempfile_would_choose_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: bool) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none" if missing else tmp_path))
    scratch.settle_temporary_folder()
    # One that cannot be used is left to tempfile, which goes on searching.
    assert tempfile.tempdir == (None if missing else str(tmp_path))


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
    end = time.monotonic() + 120
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.05)
    left = list(tmp_path.iterdir())
    subprocess.run(["rm", "-rf", "--", *left], check=True)
    assert left == []
    assert said.stdout.startswith(str(tmp_path))


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
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "rows").touch()
    command = [sys.executable, "-I", "-S", "-c", janitor.PROGRAM, "0"]
    handle = os.open(corpus, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    subprocess.run(command, input=f"+p{corpus}\n".encode(), check=True)
    assert (corpus / "rows").exists()
    os.close(handle)
    subprocess.run(command, input=f"+p{corpus}\n".encode(), check=True)
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("parquet") / "x.parquet"
    pq.write_table(pa.table({"a": range(3 * BATCH_ROWS), "b": ["x"] * (3 * BATCH_ROWS)}), target)
    return target


def test_rows_come_in_batches_with_the_columns_asked_for(path: Path) -> None:
    schema, tables = open_parquet(path, ["a", "no such column"])
    assert schema.names == ["a", "b"]
    found = list(tables)
    assert [table.num_rows for table in found] == [BATCH_ROWS] * 3
    assert pa.concat_tables(found).column("a").to_pylist() == list(range(3 * BATCH_ROWS))


def test_a_reader_that_was_left_halfway_does_not_stop_the_next(path: Path) -> None:
    _, halfway = open_parquet(path)
    next(halfway)
    assert read_schema(path).names == ["a", "b"], "another file can be read meanwhile"
    assert sum(table.num_rows for table in halfway) == 2 * BATCH_ROWS


def test_a_file_that_is_not_parquet_or_not_there_is_one_line(path: Path, tmp_path: Path) -> None:
    (tmp_path / "half.parquet").write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"half\.parquet: cannot be read as Parquet"):
        read_schema(tmp_path / "half.parquet")
    with pytest.raises(UserError, match="does not exist"):
        read_schema(tmp_path / "none.parquet")
    assert read_schema(path).names == ["a", "b"]


def test_a_reader_that_dies_says_so_whatever_it_was_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dying = "import os, signal\n\ndef parse(data):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (tmp_path / "dying_parser.py").write_text(dying)
    monkeypatch.syspath_prepend(str(tmp_path))
    reader = Reader("dying_parser:parse")
    with pytest.raises(DataError, match=r"^rows\.jsonl cannot be read \(the reader was ended by SIGKILL\)$"):
        reader.read(b"{}", "rows.jsonl")
    reader.close()


def test_a_reader_that_does_not_start_says_so_and_can_be_asked_again() -> None:
    reader = Reader("no_such_module:parse")
    for _ in range(2):
        with pytest.raises(DataError, match=r"^x\.parquet cannot be read \(the reader (ended|did not start)\)$"):
            reader.read(bytes(1 << 20), "x.parquet")
