"""A corpus that is not what its manifest says is refused, and what was verified is not read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kbench.benchmark.problems.foreign.user_code import import_file
from kbench.loaders.corpus import verify as verify_module
from kbench.loaders.corpus.corpus import Corpus
from kbench.loaders.corpus.places import shipped
from kbench.loaders.corpus.shards import read_parquet
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.schemas import DataError

SCRIPT = Path(__file__).parents[2] / "tests/support/faults/tampering.py"
tampering = import_file(SCRIPT)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "corpus"
    with CorpusWriter(folder) as writer:
        pairs = Corpus.open(shipped()).table("pairs")
        for split in ("train", "test"):
            writer.append(
                "pairs", pairs.filter([row == split for row in pairs.column("split").to_pylist()]).slice(0, 300)
            )
    return folder


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("name", [name for name in tampering.CASES if not name.startswith("bit ")] + ["bit 0 flipped"])
def test_a_tampered_corpus_is_refused(name: str, small: Path, tmp_path: Path) -> None:
    assert tampering.try_case(name, small, tmp_path) is not None


def test_a_shard_that_is_a_pipe_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="is a pipe"):
        read_parquet(tmp_path / "x.parquet")


def test_what_was_verified_is_not_read_again(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Corpus.open(small, verified=True)
    monkeypatch.setattr(verify_module, "row_groups", lambda path: pytest.fail("read again"))
    assert Corpus.open(small, verified=True).rows("pairs") == 600


def test_a_home_that_cannot_be_written_costs_nothing_else(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("KBENCH_HOME", str(tmp_path / "file" / "home"))
    assert Corpus.open(small, verified=True).rows("pairs") == 600
