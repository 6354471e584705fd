"""Parquet files given alone: the config they are of is what they say, else their folder, else their columns."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kbench.loaders.checks.validate import validate
from kbench.loaders.cli import data
from kbench.loaders.corpus.configs import CONFIGS
from kbench.loaders.corpus.corpus import Corpus, load
from kbench.loaders.corpus.writer import CorpusWriter
from kbench.loaders.exporters import export
from kbench.schemas import UserError
from kbench.schemas.files import versions


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
    with pytest.raises(UserError, match="'kernels' has no rows in the files given; configs with rows: pairs, repeats"):
        load(files)
    result = CliRunner().invoke(data, ["query", str(files[0]), "--config", "measurements"])
    assert isinstance(result.exception, UserError)
    assert load(files, config="repeats").count() == 2


def test_a_folder_without_rows_of_a_config_is_no_empty_answer(corpus_path: Path) -> None:
    with CorpusWriter(corpus_path) as writer:
        writer.replace("repeats", [])
    with pytest.raises(UserError, match="config 'repeats' has no rows in this corpus; configs with rows: kernels, "):
        load(corpus_path, config="repeats")


FINGERPRINTS = {
    "1.0.0": "063f24a8f40e7f42e8456bfce52f602d",
    "1.1.0": "95762e8c89cc7d1d2514ec301a81a44a",
    "1.2.0": "02810955a63294748ba44c1938d72930",
    "1.3.0": "7ac357e4fe9876a1c07e8915f890aa25",
}


def test_there_is_a_corpus_for_every_published_version(old_corpora: Path) -> None:
    assert sorted(path.name for path in old_corpora.iterdir()) == sorted(versions()) == sorted(FINGERPRINTS)


@pytest.mark.parametrize("version", FINGERPRINTS)
def test_a_corpus_of_every_version_opens_and_validates(version: str, old_corpora: Path) -> None:
    corpus = Corpus.open(old_corpora / version)
    later = ("plans", "references", "counters", "live", "questions", "tuning")
    since = {"repeats": "1.3.0", **dict.fromkeys(later, "1.4.0")}
    assert corpus.configs == tuple(name for name in CONFIGS if version >= since.get(name, ""))
    assert validate(corpus) == []
    for name in corpus.configs:
        assert sum(1 for _ in corpus.select(name).records()) == corpus.rows(name) > 0


@pytest.mark.parametrize("version", FINGERPRINTS)
def test_the_fingerprint_of_old_content_stays(version: str, old_corpora: Path) -> None:
    assert Corpus.open(old_corpora / version).fingerprint == FINGERPRINTS[version]


@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_writing_old_rows_again_with_later_columns_keeps_their_fingerprint(
    version: str, tmp_path: Path, old_corpora: Path
) -> None:
    old = Corpus.open(old_corpora / version)
    with CorpusWriter(tmp_path / "again") as writer:
        for name in old.configs:
            writer.append(name, old.table(name))
    again = Corpus.open(tmp_path / "again")
    assert again.fingerprint == old.fingerprint
    assert validate(again) == []
    assert again.table("measurements").column("ruler_us").null_count == old.rows("measurements")


def test_a_column_an_older_file_lacks_reads_as_null(corpus_path: Path, tmp_path: Path) -> None:
    victim = next((corpus_path / "kernels").glob("train-*.parquet"))
    older = tmp_path / "older.parquet"
    pq.write_table(pq.read_table(victim).drop(["license"]), older)
    selection = load([older])
    assert selection.to_arrow().column("license").null_count == selection.count() == 20
    assert selection.to_polars().collect()["license"].null_count() == 20
