"""Parquet files given alone: the config they are of is what they say, else their folder, else their columns."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kbench.loaders.cli import data
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.exporters import export
from kbench.schemas import UserError


def unmarked(path: Path, target: Path) -> Path:
    """A copy as files were written before they named their config."""
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), target)
    return target


def shard(corpus: Path, config: str) -> Path:
    return next((corpus / config).glob("*.parquet"))


def test_a_file_says_its_config_wherever_it_lies(corpus_path: Path, tmp_path: Path) -> None:
    for config in ("repeats", "measurements"):
        moved = Path(shutil.copy(shard(corpus_path, config), tmp_path / f"{config}.parquet"))
        assert Corpus.open(moved).configs == (config,)
    in_the_wrong_folder = tmp_path / "measurements" / "moved.parquet"
    in_the_wrong_folder.parent.mkdir()
    shutil.copy(shard(corpus_path, "repeats"), in_the_wrong_folder)
    assert Corpus.open(in_the_wrong_folder).configs == ("repeats",)


def test_an_exported_file_says_its_config_too(corpus_path: Path, tmp_path: Path) -> None:
    export(load(corpus_path, config="repeats"), tmp_path / "out.parquet")
    assert load(tmp_path / "out.parquet", config="repeats").count() == 2


def test_a_file_that_says_nothing_is_of_the_config_its_folder_is_named_for(
    corpus_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = unmarked(shard(corpus_path, "repeats"), tmp_path / "repeats" / "old.parquet")
    assert Corpus.open(path).configs == ("repeats",)
    monkeypatch.chdir(path.parent)
    assert Corpus.open("old.parquet").configs == ("repeats",)


def test_a_folder_of_a_config_with_other_columns_says_nothing(corpus_path: Path, tmp_path: Path) -> None:
    path = unmarked(shard(corpus_path, "pairs"), tmp_path / "repeats" / "old.parquet")
    assert Corpus.open(path).configs == ("pairs",)


def test_a_config_that_none_of_the_files_has_is_refused(corpus_path: Path) -> None:
    files = [shard(corpus_path, "repeats"), shard(corpus_path, "pairs")]
    with pytest.raises(UserError, match="config 'kernels' is in none of the files given, which hold pairs, repeats"):
        load(files)
    result = CliRunner().invoke(data, ["query", str(files[0]), "--config", "measurements"])
    assert isinstance(result.exception, UserError)
    assert load(files, config="repeats").count() == 2


def test_a_folder_without_rows_of_a_config_is_an_empty_answer(corpus_path: Path) -> None:
    with CorpusWriter(corpus_path) as writer:
        writer.replace("repeats", [])
    assert load(corpus_path, config="repeats").count() == 0
