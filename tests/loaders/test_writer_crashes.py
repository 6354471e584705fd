"""Whatever ends a writer, the folder opens as the state before or after, for us and for Hugging Face `datasets`."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.loaders.checks.validate import card_configs, validate
from kbench.loaders.corpus import writer as writer_module
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter, refresh
from kbench.schemas import DataError, InfrastructureError

from .conftest import make_kernel, make_measurement, write_corpus

SOURCE = str(Path(__file__).parents[2] / "src")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_exception_leaves_the_corpus_as_it_was(corpus_path: Path, monkeypatch: Any) -> None:
    before = contents(corpus_path)
    monkeypatch.setattr(writer_module, "SHARD_ROWS", 2)

    def write_some_and_fail() -> None:
        with CorpusWriter(corpus_path) as writer:
            writer.append("kernels", [make_kernel(number) for number in range(100, 105)])
            raise KeyError("stop")

    with pytest.raises(KeyError):
        write_some_and_fail()
    assert contents(corpus_path) == before


@pytest.mark.parametrize("there", [False, True])
def test_an_exception_before_the_first_commit_leaves_nothing(there: bool, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(writer_module, "SHARD_ROWS", 2)
    if there:
        (tmp_path / "new").mkdir()

    def begin_and_end() -> None:
        with CorpusWriter(tmp_path / "new") as writer:
            writer.append("kernels", [make_kernel(number) for number in range(5)])
            sys.exit(143)  # as after a signal

    with pytest.raises(SystemExit):
        begin_and_end()
    assert [path.name for path in tmp_path.rglob("*")] == (["new"] if there else [])


KILLED = """
import os, signal, sys
sys.path.insert(0, {source!r})
import pyarrow.parquet as pq
from kbench.loaders.corpus import writer
from kbench.loaders.corpus.corpus import load
calls = -1
real = os.{call}
def watched(*arguments):
    global calls
    calls += 1
    if {moment}:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*arguments)
os.{call} = watched
table = load({path!r}).to_arrow()
with writer.CorpusWriter({path!r}) as w:
    w.replace("kernels", writer.pa.concat_tables([table, table]))
    w.append("problems", load({path!r}, config="problems").to_arrow())
print("finished")
"""


AT_THE_CARD, AT_THE_MANIFEST = (f"str(arguments[-1]).endswith('{name}')" for name in ("README.md", "manifest.json"))


def kill_writer(path: Path, call: str, moment: str) -> None:
    """Append to a corpus, and be killed in that function of `os` at that moment."""
    code = KILLED.format(source=SOURCE, call=call, moment=moment, path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


def files_datasets_reads(path: Path) -> list[Path]:
    """What `load_dataset` would open: the files the card names."""
    told = card_configs(path / "README.md")
    return [path / name for files in told.values() for _, name in files]


@pytest.mark.parametrize(
    ("call", "moment"),
    [
        *(("fsync", f"calls == {number}") for number in (0, 3, 8, 15)),
        *(("replace", moment) for moment in ("calls == 0", "calls == 5", AT_THE_CARD, AT_THE_MANIFEST)),
        ("unlink", "'.parquet' in str(arguments[0])"),
    ],
)
def test_a_killed_writer_leaves_the_state_before_or_after(tmp_path: Path, call: str, moment: str) -> None:
    path = write_corpus(tmp_path / "corpus", kernels=12)
    before = Corpus.open(path)
    kill_writer(path, call, moment)
    assert all(file.is_file() for file in files_datasets_reads(path))
    after = Corpus.open(path)
    assert after.rows("kernels") in (12, 24)
    assert load(path).to_arrow().num_rows == after.rows("kernels")
    if after.rows("kernels") == 12:
        assert after.fingerprint == before.fingerprint
    with CorpusWriter(path) as writer:
        writer.append("kernels", [make_kernel(500)])
    assert Corpus.open(path).rows("kernels") == after.rows("kernels") + 1
    assert not [name for name in contents(path) if name.endswith(".part")]
    named = {entry.path for name in Corpus.open(path).configs for entry in Corpus.open(path).files(name)}
    assert {name for name in contents(path) if name.endswith(".parquet")} == named


def stopper(name: str, error: BaseException) -> Callable[[Path, Any], None]:
    """A stand-in for `Path.replace` that fails for the file of that name, once."""
    real, left = Path.replace, [error]

    def replace(aside: Path, target: Path) -> None:
        if target.name == name and left:
            raise left.pop()
        real(aside, target)

    return replace


@pytest.mark.parametrize("name", ["manifest.json", "README.md"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
@pytest.mark.parametrize("work", ["append", "replace"])
def test_a_commit_that_cannot_end_puts_the_old_card_back(
    corpus_path: Path, monkeypatch: Any, name: str, error: BaseException, work: str
) -> None:
    before = contents(corpus_path)
    monkeypatch.setattr(Path, "replace", stopper(name, error))
    expected = InfrastructureError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected), CorpusWriter(corpus_path) as writer:
        getattr(writer, work)("kernels", [make_kernel(1000)])
    assert contents(corpus_path) == before


def test_a_full_disk_is_met_before_the_first_file_changes(corpus_path: Path, monkeypatch: Any) -> None:
    before = contents(corpus_path)
    real = Path.open

    def full(path: Path, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if path.name.startswith(".manifest.json.") and "w" in mode:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        assert mode != "wb" or path.name.endswith(".part")
        return real(path, mode, *arguments, **options)

    monkeypatch.setattr(Path, "open", full)
    with (
        pytest.raises(InfrastructureError, match=r"No space .*; the corpus is unchanged"),
        CorpusWriter(corpus_path) as writer,
    ):
        writer.append("kernels", [make_kernel(1000)])
    assert contents(corpus_path) == before


def test_a_failed_writer_removes_nothing_that_a_killed_ones_card_names(tmp_path: Path) -> None:
    path = write_corpus(tmp_path / "corpus", kernels=12)
    kill_writer(path, "replace", AT_THE_MANIFEST)
    named = files_datasets_reads(path)
    known = {path / entry.path for name in Corpus.open(path).configs for entry in Corpus.open(path).files(name)}
    assert set(named) != known, "killed when the card was new and the manifest old"

    def write_the_same_and_fail() -> None:
        rows = load(path).to_arrow()
        with CorpusWriter(path) as writer:
            writer.replace("kernels", pa.concat_tables([rows, rows]))
            writer._flush("kernels")
            raise KeyError("stop")

    with pytest.raises(KeyError):
        write_the_same_and_fail()
    assert all(file.is_file() for file in named)
    assert sum("which the manifest does not" in issue.message for issue in validate(Corpus.open(path))) == 2
    refresh(path)
    assert validate(Corpus.open(path)) == []
    assert set(files_datasets_reads(path)) == known


def test_datasets_opens_what_a_killed_writer_left(tmp_path: Path, fresh_python: Callable[[str], str]) -> None:
    path = write_corpus(tmp_path / "corpus", kernels=12)
    kill_writer(path, "replace", AT_THE_MANIFEST)
    code = f"import datasets\nprint(len(datasets.load_dataset({str(path)!r}, 'kernels', split='all')))"
    assert (fresh_python(code), load(path).count()) == ("24\n", 12)


WRITTEN_AGAIN = """
import errno, os, signal, sys
sys.path.insert(0, {source!r})
from kbench.loaders.card import card
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.writer import CorpusWriter
def end(*_):
    print('shards are there', flush=True)
    {end}
card.describe = end
old = Corpus.open({path!r})
with CorpusWriter({path!r}) as writer:
    for name in old.configs:
        writer.replace(name, old.table(name))
"""


@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), signal.SIGKILL)", "raise KeyboardInterrupt", "raise OSError(errno.ENOSPC, 'full')"]
)
def test_old_rows_written_again_leave_the_files_the_manifest_names(tmp_path: Path, end: str, old_corpora: Path) -> None:
    """An earlier kbench put no config mark into its shards: the same rows are other bytes now."""
    path = Path(shutil.copytree(old_corpora / "1.2.0", tmp_path / "corpus"))
    before, old = contents(path), Corpus.open(path)
    code = WRITTEN_AGAIN.format(source=SOURCE, end=end, path=str(path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode != 0, done.stdout) == (True, "shards are there\n"), done.stderr
    left = contents(path)
    assert {name: left[name] for name in before} == before
    assert (len(left) > len(before)) == ("SIGKILL" in end), "only a killed writer leaves its shards"
    assert Corpus.open(path).fingerprint == old.fingerprint
    assert validate(Corpus.open(path)) == []
    with CorpusWriter(path) as writer:
        for name in old.configs:
            writer.replace(name, old.table(name))
    again = Corpus.open(path)
    assert again.fingerprint == old.fingerprint
    assert validate(again) == []
    named = {entry.path for name in again.configs for entry in again.files(name)}
    assert {name for name in contents(path) if name.endswith(".parquet")} == named


def test_a_shard_that_is_there_with_the_same_bytes_is_kept(corpus_path: Path) -> None:
    rows = load(corpus_path).to_arrow()
    before = {item: item.stat().st_ino for item in corpus_path.glob("kernels/*.parquet")}
    manifest = json.loads((corpus_path / "manifest.json").read_bytes())
    with CorpusWriter(corpus_path) as writer:
        writer.replace("kernels", rows)
    assert {item: item.stat().st_ino for item in corpus_path.glob("kernels/*.parquet")} == before
    after = json.loads((corpus_path / "manifest.json").read_bytes())
    # Tests draw no plots, whose hashes are the only ones that differ.
    assert {**after, "companions": None} == {**manifest, "companions": None}


def test_a_time_that_is_none_is_one_line(corpus_path: Path) -> None:
    before = contents(corpus_path)
    row = make_measurement(make_kernel(1000), started_at="yesterday")
    with (
        pytest.raises(DataError, match="started_at is 'yesterday'; it must be ISO 8601"),
        CorpusWriter(corpus_path) as writer,
    ):
        writer.append("measurements", [row])
    assert contents(corpus_path) == before


SCRIPT = Path(__file__).parents[2] / "tests/support/faults/kills.py"


def test_a_writer_killed_at_any_moment_leaves_the_state_before_or_after() -> None:
    found = import_file(SCRIPT).attack(0.08)
    assert {name: one["wrong"] for name, one in found.items()} == {"together": 0, "swapped": 0, "appended": 0}
    assert {one.get("left", 0) for one in found.values()} == {0}
    assert sum(one["cut_short"] for one in found.values()) > 0
